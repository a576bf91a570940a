//! The look of a page. Colours are given twice, for light and dark, without variables, since many viewers do not support them.

/// The style sheet.
pub(super) const STYLE: &str = "\
text { font-family: system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Noto Sans', 'DejaVu Sans', sans-serif; fill: #1f2328; }
.title { font-size: 18px; font-weight: 600; }
.panel { font-size: 15px; font-weight: 600; }
.muted { font-size: 12px; fill: #59636e; }
.label { font-size: 13px; font-weight: 600; }
.detail { font-size: 11px; fill: #59636e; }
.page { fill: #ffffff; }
.card { fill: #f6f8fa; stroke: #c4ccd4; stroke-width: 1; }
.edge { fill: none; stroke-width: 1.6; stroke-linecap: round; stroke-linejoin: round; }
.edge.main { stroke: #6e7781; } .head.main { fill: #6e7781; }
.edge.second { stroke: #8250df; } .head.second { fill: #8250df; }
.edge.third { stroke: #0a7ea4; } .head.third { fill: #0a7ea4; }
.edge.warning { stroke: #cf222e; } .head.warning { fill: #cf222e; }
.dashed { stroke-dasharray: 6 4; }
.dotted { stroke-dasharray: 1.5 4; }
.route:hover .edge { stroke-width: 3; }
.badge-text { font-size: 10px; font-weight: 600; text-anchor: middle; fill: #ffffff; }
.badge.head { fill: #1a7f37; }
.badge.installed, .badge.start { fill: #0969da; }
.badge.next { fill: #0550ae; }
.badge.reachable { fill: #54aeff; }
.badge.deprecated { fill: #9a6700; }
.badge.blocked { fill: #a40e26; }
.node.head .card { stroke: #1a7f37; stroke-width: 1.6; }
.node.deprecated .card { fill: #fff8c5; stroke: #d4a72c; }
.node.reachable .card { fill: #ddf4ff; stroke: #54aeff; }
.node.next .card { fill: #ddf4ff; stroke: #0550ae; stroke-width: 1.6; }
.node.installed .card, .node.start .card { fill: #b6e3ff; stroke: #0969da; stroke-width: 2.2; }
.node.blocked .card { stroke: #cf222e; stroke-dasharray: 4 3; }
.node.elsewhere .card { fill: none; stroke-dasharray: 4 3; }
.badge.elsewhere { fill: #6e7781; }
.node.deprecated .label { text-decoration: line-through; }
.away { opacity: 0.55; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; }
.muted, .detail { fill: #9198a1; }
.page { fill: #0d1117; }
.card { fill: #161b22; stroke: #3d444d; }
.edge.main { stroke: #9198a1; } .head.main { fill: #9198a1; }
.edge.second { stroke: #ab7df8; } .head.second { fill: #ab7df8; }
.edge.third { stroke: #39b7d8; } .head.third { fill: #39b7d8; }
.edge.warning { stroke: #f85149; } .head.warning { fill: #f85149; }
.badge-text { fill: #ffffff; }
.badge.head { fill: #238636; }
.badge.installed, .badge.start { fill: #1f6feb; }
.badge.next { fill: #1158c7; }
.badge.reachable { fill: #388bfd; }
.node.head .card { stroke: #3fb950; }
.node.deprecated .card { fill: #2e2a1f; stroke: #9e6a03; }
.node.reachable .card { fill: #0c2d4d; stroke: #1f6feb; }
.node.next .card { fill: #0c2d4d; stroke: #58a6ff; }
.node.installed .card, .node.start .card { fill: #0d419d; stroke: #79c0ff; }
.node.installed .detail, .node.start .detail { fill: #d1e3f8; }
.node.blocked .card { stroke: #f85149; }
}
";
