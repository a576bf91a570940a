//! A picture as one self-contained SVG: no script, no reference to anything outside; light or dark like the page around it.

mod style;
mod words;

use std::fmt::{self, Write as _};

use crate::error::Error;
use crate::layout::{Bend, Layout, Point, Rect, Route, Stroke, layout};
use crate::model::{Kind, Line, Mark, Node, Panel, Picture};
use style::STYLE;
use words::{escape, shorten, width, wrap};

/// Space around the whole drawing.
const MARGIN: f64 = 28.0;
/// Space inside a box, left and right.
const PADDING: f64 = 12.0;
/// Height of a box's first line, and of each further one.
const LABEL_LINE: f64 = 20.0;
const DETAIL_LINE: f64 = 15.0;
/// Sizes of letters.
const LABEL: f64 = 13.0;
const DETAIL: f64 = 11.0;
const BADGE: f64 = 10.0;
/// The longest line of text in a box.
const MAX_TEXT: f64 = 420.0;
/// The least width of a panel, so that its heading has room.
const LEAST_PANEL: f64 = 280.0;
/// Width of bold letters relative to others.
const BOLD: f64 = 1.15;
/// Distance between two panels.
const PANEL_GAP: f64 = 44.0;
/// The width that panels beside each other do not exceed.
const PAGE: f64 = 1900.0;
/// Length of an arrowhead.
const HEAD: f64 = 8.0;

/// Draws a picture.
pub fn svg(picture: &Picture) -> Result<String, Error> {
    picture.check()?;
    let mut body = Body::default();
    let mut right: f64 = 360.0;
    body.y = MARGIN + 6.0;
    body.text(MARGIN, "title", &picture.title);
    right = right.max(MARGIN + width(&picture.title, 18.0) * BOLD);
    for line in picture.description.lines() {
        body.y += 20.0;
        body.text(MARGIN, "muted", line);
        right = right.max(MARGIN + width(line, 12.0));
    }
    body.y += 26.0;
    right = right.max(legend(&mut body, picture));
    let mut flow = Flow { x: MARGIN, top: body.y, bottom: body.y };
    for panel in &picture.panels {
        right = right.max(flow.draw(&mut body, picture, panel));
    }
    let (wide, high) = (right + MARGIN, flow.bottom + MARGIN);
    let mut out = String::with_capacity(body.out.len() + 4096);
    put(
        &mut out,
        format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{wide:.0}\" height=\"{high:.0}\" viewBox=\"0 0 {wide:.0} {high:.0}\" \
             role=\"img\" aria-labelledby=\"title desc\">\n<title id=\"title\">{}</title>\n<desc id=\"desc\">{}</desc>\n<style>\n{STYLE}</style>\n\
             <rect class=\"page\" width=\"100%\" height=\"100%\"/>\n",
            escape(&picture.title),
            escape(&summary(picture))
        ),
    );
    out.push_str(&body.out);
    out.push_str("</svg>\n");
    Ok(out)
}

/// The picture in words, for readers who cannot see it.
fn summary(picture: &Picture) -> String {
    let mut words = picture.description.replace('\n', " ");
    for panel in &picture.panels {
        if !words.is_empty() {
            words.push(' ');
        }
        put(&mut words, format_args!("{}: {} nodes, {} edges.", panel.name, panel.nodes.len(), panel.edges.len()));
        for mark in [Mark::Head, Mark::Installed] {
            let marked: Vec<&str> = panel.nodes.iter().filter(|node| node.marks.has(mark)).map(|node| node.label.as_str()).collect();
            if !marked.is_empty() {
                put(&mut words, format_args!(" {}: {}.", mark.name(), marked.join(", ")));
            }
        }
    }
    words
}

/// The SVG written so far, and the height it takes.
#[derive(Default)]
struct Body {
    out: String,
    y: f64,
}

impl Body {
    fn text(&mut self, x: f64, class: &str, text: &str) {
        put(&mut self.out, format_args!("<text class=\"{class}\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>\n", self.y, escape(text)));
    }
}

/// Draws the legend of lines and marks; returns its right edge.
fn legend(body: &mut Body, picture: &Picture) -> f64 {
    let mut x = MARGIN;
    let y = body.y;
    for (_, kind) in picture.kinds_in_use() {
        let y = y - 4.0;
        put(&mut body.out, format_args!("<path class=\"edge {}{}\" d=\"M{x:.1} {y:.1}h26\"/>\n", kind.tone.name(), line_class(kind.line)));
        head(&mut body.out, kind, Point::new(x + 34.0, y), Point::new(x + 20.0, y));
        x += 42.0;
        body.text(x, "muted", &kind.name);
        x += width(&kind.name, 12.0) + 22.0;
    }
    for mark in picture.marks_in_use() {
        let badge = badge(&mut body.out, mark, x, y - 13.0);
        x += badge + 8.0;
    }
    if x > MARGIN {
        body.y += 14.0;
    }
    x
}

/// Panels from left to right, with a new line when the page is full.
struct Flow {
    x: f64,
    top: f64,
    bottom: f64,
}

impl Flow {
    /// Draws a panel; returns its right edge.
    fn draw(&mut self, body: &mut Body, picture: &Picture, panel: &Panel) -> f64 {
        let natural: Vec<(f64, f64)> = panel.nodes.iter().map(size).collect();
        // Boxes of one width make straight columns.
        let widest = natural.iter().map(|(width, _)| *width).fold(0.0, f64::max);
        let sizes: Vec<(f64, f64)> = natural.iter().map(|(_, height)| (widest, *height)).collect();
        let layout = layout(picture, panel, &sizes);
        let wide = layout.width.max(width(&panel.name, 15.0) * BOLD).max(LEAST_PANEL);
        if self.x > MARGIN && self.x + wide > PAGE {
            (self.x, self.top) = (MARGIN, self.bottom + PANEL_GAP);
        }
        body.y = self.top + 26.0;
        body.text(self.x, "panel", &panel.name);
        for line in panel.notes.iter().flat_map(|note| wrap(note, wide, 12.0)) {
            body.y += 18.0;
            body.text(self.x, "muted", &line);
        }
        body.y += 18.0;
        put(&mut body.out, format_args!("<g transform=\"translate({:.1} {:.1})\">\n", self.x, body.y));
        lines(&mut body.out, picture, panel, &layout);
        let from_somewhere = panel.nodes.iter().any(|node| node.marks.has(Mark::Next) || node.marks.has(Mark::Reachable));
        for (node, rect) in panel.nodes.iter().zip(&layout.nodes) {
            card(&mut body.out, node, rect, from_somewhere);
        }
        body.out.push_str("</g>\n");
        self.bottom = self.bottom.max(body.y + layout.height);
        let right = self.x + wide;
        self.x = right + PANEL_GAP;
        right
    }
}

fn size(node: &Node) -> (f64, f64) {
    let badges: f64 = badges(node).map(|mark| badge_width(mark) + 4.0).sum();
    let label = width(&node.label, LABEL).min(MAX_TEXT) * BOLD + if badges > 0.0 { badges + 10.0 } else { 0.0 };
    let details = node.details.iter().map(|detail| width(detail, DETAIL).min(MAX_TEXT)).fold(0.0, f64::max);
    (label.max(details).max(60.0).ceil() + 2.0 * PADDING, LABEL_LINE + DETAIL_LINE * node.details.len() as f64 + 12.0)
}

/// The marks that are written as words; the look of the box shows the marks for reachable and elsewhere.
fn badges(node: &Node) -> impl Iterator<Item = Mark> {
    node.marks.iter().filter(|mark| !matches!(mark, Mark::Reachable | Mark::Elsewhere))
}

fn card(out: &mut String, node: &Node, rect: &Rect, from_somewhere: bool) {
    let mut class = String::from("node");
    for mark in node.marks.iter() {
        put(&mut class, format_args!(" {}", mark.name()));
    }
    let within = [Mark::Installed, Mark::Start, Mark::Next, Mark::Reachable].into_iter().any(|mark| node.marks.has(mark));
    if from_somewhere && !within {
        class.push_str(" away");
    }
    let mut words = node.id.clone();
    node.details.iter().for_each(|detail| put(&mut words, format_args!("\n{detail}")));
    let marks = node.marks.words();
    if !marks.is_empty() {
        put(&mut words, format_args!("\n{}", marks.join(", ")));
    }
    put(out, format_args!("<g class=\"{class}\"><title>{}</title>\n", escape(&words)));
    put(
        out,
        format_args!(
            "<rect class=\"card\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"7\"/>\n",
            rect.x, rect.y, rect.width, rect.height
        ),
    );
    let x = rect.x + PADDING;
    let mut y = rect.y + LABEL_LINE;
    put(out, format_args!("<text class=\"label\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>\n", escape(&shorten(&node.label, MAX_TEXT, LABEL))));
    for detail in &node.details {
        y += DETAIL_LINE;
        put(out, format_args!("<text class=\"detail\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>\n", escape(&shorten(detail, MAX_TEXT, DETAIL))));
    }
    let all: f64 = badges(node).map(|mark| badge_width(mark) + 4.0).sum();
    let mut x = rect.x + rect.width - PADDING + 6.0 - all;
    for mark in badges(node) {
        x += badge(out, mark, x, rect.y + LABEL_LINE - 13.0) + 4.0;
    }
    out.push_str("</g>\n");
}

fn badge_width(mark: Mark) -> f64 {
    (width(mark.name(), BADGE) + 12.0).ceil()
}

/// Draws a mark as a word on a coloured ground; returns its width.
fn badge(out: &mut String, mark: Mark, x: f64, y: f64) -> f64 {
    let (name, wide) = (mark.name(), badge_width(mark));
    put(
        out,
        format_args!(
            "<rect class=\"badge {name}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"17\" rx=\"8.5\"/>\n\
             <text class=\"badge-text {name}\" x=\"{:.1}\" y=\"{:.1}\">{name}</text>\n",
            x + wide / 2.0,
            y + 12.0
        ),
    );
    wide
}

/// Draws lines on a ground of the page's colour, so that crossings can be told from joints.
fn lines(out: &mut String, picture: &Picture, panel: &Panel, layout: &Layout) {
    for route in &layout.routes {
        let kind = &picture.kinds[route.kind];
        let class = if route.downward { "warning" } else { kind.tone.name() };
        put(out, format_args!("<g class=\"route\"><title>{}</title>\n", escape(&about(kind, panel, route))));
        let d: String = route.strokes.iter().map(path).collect();
        put(out, format_args!("<path class=\"edge {class}{}\" d=\"{d}\"/>\n", line_class(kind.line)));
        for stroke in route.strokes.iter().filter(|stroke| stroke.head) {
            if let [.., before, tip] = stroke.points.as_slice() {
                let before = match stroke.bend {
                    Bend::Smooth => Point::new(tip.x, tip.y + 20.0),
                    Bend::Corner => *before,
                };
                let kind = Kind { tone: if route.downward { crate::model::Tone::Warning } else { kind.tone }, ..kind.clone() };
                head(out, &kind, *tip, before);
            }
        }
        out.push_str("</g>\n");
    }
}

/// The description of a route: `replaces: 1.0.0 to 1.1.0`, and its notes.
fn about(kind: &Kind, panel: &Panel, route: &Route) -> String {
    let names = |nodes: &[usize]| match nodes {
        [] => String::new(),
        [one] => panel.nodes[*one].label.clone(),
        [first, .., last] => format!("{} nodes, {} to {}", nodes.len(), panel.nodes[*first].label, panel.nodes[*last].label),
    };
    let mut words = format!("{}: {} \u{2192} {}", kind.name, names(&route.from), names(&route.to));
    route.notes.iter().for_each(|note| put(&mut words, format_args!("\n{note}")));
    words
}

fn line_class(line: Line) -> &'static str {
    match line {
        Line::Solid => "",
        Line::Dashed => " dashed",
        Line::Dotted => " dotted",
    }
}

fn head(out: &mut String, kind: &Kind, tip: Point, before: Point) {
    let (dx, dy) = (tip.x - before.x, tip.y - before.y);
    let length = dx.hypot(dy).max(f64::EPSILON);
    let (ux, uy) = (dx / length, dy / length);
    let (bx, by) = (tip.x - ux * HEAD, tip.y - uy * HEAD);
    let half = HEAD * 0.45;
    put(
        out,
        format_args!(
            "<path class=\"head {}\" d=\"M{:.1} {:.1}L{:.1} {:.1}L{:.1} {:.1}z\"/>\n",
            kind.tone.name(),
            tip.x,
            tip.y,
            bx - uy * half,
            by + ux * half,
            bx + uy * half,
            by - ux * half
        ),
    );
}

/// The data of a path.
fn path(stroke: &Stroke) -> String {
    let mut points = stroke.points.clone();
    // A line ends inside its arrowhead, or its own width would show beside the tip.
    if stroke.head
        && let [.., before, tip] = points.as_mut_slice()
    {
        match stroke.bend {
            Bend::Smooth => tip.y += HEAD - 2.0,
            Bend::Corner => {
                let (dx, dy) = (tip.x - before.x, tip.y - before.y);
                let length = dx.hypot(dy).max(f64::EPSILON);
                let cut = (HEAD - 2.0).min(length);
                *tip = Point::new(tip.x - dx / length * cut, tip.y - dy / length * cut);
            }
        }
    }
    let mut d = String::new();
    let Some(first) = points.first() else { return d };
    put(&mut d, format_args!("M{:.1} {:.1}", first.x, first.y));
    match stroke.bend {
        Bend::Smooth => {
            for pair in points.windows(2) {
                let (from, to) = (pair[0], pair[1]);
                if (from.x - to.x).abs() < 0.05 {
                    put(&mut d, format_args!("V{:.1}", to.y));
                } else {
                    let middle = f64::midpoint(from.y, to.y);
                    put(&mut d, format_args!("C{:.1} {middle:.1} {:.1} {middle:.1} {:.1} {:.1}", from.x, to.x, to.x, to.y));
                }
            }
        }
        Bend::Corner => {
            for at in 1..points.len() {
                match points.get(at + 1) {
                    Some(next) => corner(&mut d, points[at - 1], points[at], *next),
                    None => put(&mut d, format_args!("L{:.1} {:.1}", points[at].x, points[at].y)),
                }
            }
        }
    }
    d
}

fn corner(d: &mut String, from: Point, at: Point, to: Point) {
    let towards = |end: Point| {
        let (dx, dy) = (end.x - at.x, end.y - at.y);
        let length = dx.hypot(dy);
        let radius = crate::layout::CORNER.min(length);
        if length < f64::EPSILON { at } else { Point::new(at.x + dx / length * radius, at.y + dy / length * radius) }
    };
    let (before, after) = (towards(from), towards(to));
    put(d, format_args!("L{:.1} {:.1}Q{:.1} {:.1} {:.1} {:.1}", before.x, before.y, at.x, at.y, after.x, after.y));
}

fn put(out: &mut String, text: fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _written = out.write_fmt(text);
}
