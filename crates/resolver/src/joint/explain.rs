//! Facts in words, each following from the ones before (MS-EXPL-01).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mainstay_diagnostics::counted;

use super::conflict::{Conflict, Fact, FactKind};
use super::encode::{Encoding, Undecided};
use super::needs::{Rule, Targets};
use super::pool::{ItemId, NeedId};
use super::search::Answer;
use super::universe::{Input, Key, Kind, Role, Universe};

/// The most bundles that are named one by one.
const MOST_NAMED: usize = 4;

/// The wide universe, in which facts are switched on and off.
pub(super) struct Explainer<'p> {
    universe: Universe<'p>,
    pub(super) encoding: Encoding,
}

impl<'p> Explainer<'p> {
    pub(super) fn new(input: &Input<'p>, fixed: &BTreeSet<usize>) -> Self {
        let mut universe = Universe::build(input, fixed, true);
        let encoding = Encoding::of(&mut universe);
        Self { universe, encoding }
    }

    /// Explains why a root cannot be met together with others that can.
    pub(super) fn conflict(&mut self, input: &Input<'p>, root: usize, wanted: &BTreeSet<usize>, questions: &mut usize) -> Conflict {
        // The narrow universe had no answer, and the wide one with all its facts is the same; if there is no core, the root alone stands for it.
        let core = match self.encoding.blame(wanted, questions) {
            Ok(core) => core.unwrap_or_else(|| vec![Key::Wanted(root)]).into_iter().collect(),
            Err(Undecided) => return Conflict::untold(&input.problem.roots[root].subject, input.package(root)),
        };
        let telling = Telling { input, universe: &mut self.universe, core: &core };
        Conflict { facts: telling.chain(input.package(root)), hints: Vec::new() }
    }

    /// Explains why a root did not get its best bundle.
    pub(super) fn held_back(&mut self, input: &Input<'p>, answer: &Answer<'p>, root: usize, best: ItemId, questions: &mut usize) -> String {
        let name = answer.universe.pool.item(best).label.clone();
        let wanted: BTreeSet<usize> = answer.universe.candidates.keys().copied().collect();
        let same = |at: &&usize| {
            let (item, other) = (self.universe.pool.item(self.universe.entities[**at].item), answer.universe.pool.item(best));
            (item.catalog, item.facts.name) == (other.catalog, other.facts.name)
        };
        let Some(at) = self.universe.candidates[&root].iter().find(same).copied() else {
            return format!("{name} would be better, but is held back");
        };
        let told = |universe: &mut Universe<'p>, core: Vec<Key>| {
            let core = core.into_iter().collect();
            let telling = Telling { input, universe, core: &core };
            Conflict { facts: telling.chain(input.package(root)), hints: Vec::new() }.to_string()
        };
        match self.encoding.blame_with(&wanted, &[at], questions) {
            Ok(Some(core)) => return format!("{name} is held back: {}", told(&mut self.universe, core)),
            Ok(None) => {}
            Err(Undecided) => return held_back_together(&name),
        }
        // It could be had if roots that go before this one had worse bundles.
        let before = answer.there.iter().filter_map(|at| match answer.universe.entities[*at].role {
            Role::Candidate { root: other, offer, bundle } if other < root => Some(Role::Candidate { root: other, offer, bundle }),
            _ => None,
        });
        let before: Vec<Role> = before.collect();
        let same = (0..self.universe.entities.len()).filter(|at| before.contains(&self.universe.entities[*at].role));
        let taken: Vec<usize> = std::iter::once(at).chain(same).collect();
        match self.encoding.blame_with(&wanted, &taken, questions) {
            Ok(Some(core)) => format!("{name} is held back by what goes before it: {}", told(&mut self.universe, core)),
            Ok(None) => format!("{name} is held back, so that nothing more must be added"),
            Err(Undecided) => held_back_together(&name),
        }
    }
}

/// The text for a bundle that is held back, when nothing more is known.
pub(super) fn held_back_together(name: &str) -> String {
    format!("{name} is held back by what has to go together")
}

/// The parts of a core for its explanation.
struct Telling<'t, 'p> {
    input: &'t Input<'p>,
    universe: &'t mut Universe<'p>,
    core: &'t BTreeSet<Key>,
}

impl Telling<'_, '_> {
    /// The facts in the order in which one leads to the next, beginning with those about a package.
    fn chain(mut self, first: &str) -> Vec<Fact> {
        // Facts about a package, and those that come once their packages are known.
        let (mut left, mut shared): (BTreeMap<String, Vec<Key>>, Vec<Key>) = Default::default();
        for key in self.core {
            match self.about(key) {
                Some(package) => left.entry(package).or_default().push(key.clone()),
                None => shared.push(key.clone()),
            }
        }
        let mut facts = Vec::new();
        let mut seen: BTreeSet<String> = BTreeSet::from([first.to_owned()]);
        let mut queue: VecDeque<String> = VecDeque::from([first.to_owned()]);
        while !left.is_empty() || !shared.is_empty() {
            let told: Vec<Key> = match queue.pop_front() {
                Some(package) => left.remove(&package).unwrap_or_default(),
                // No fact leads further: the rest begins again.
                None => match left.keys().next().cloned() {
                    Some(package) => {
                        seen.insert(package.clone());
                        queue.push_back(package);
                        continue;
                    }
                    None => std::mem::take(&mut shared),
                },
            };
            let known = |key: &mut Key| self.packages(key).iter().filter(|package| seen.contains(*package)).count() > 1;
            let known: Vec<Key> = shared.extract_if(.., known).collect();
            for key in told.into_iter().chain(known) {
                queue.extend(self.packages(&key).into_iter().filter(|package| seen.insert(package.clone())));
                facts.push(self.fact(&key));
            }
        }
        facts
    }

    /// The package that a fact is about.
    fn about(&self, key: &Key) -> Option<String> {
        match key {
            Key::Wanted(root) | Key::Filter(root, _) | Key::Stays(root) | Key::Absent(root) => Some(self.input.package(*root).to_owned()),
            Key::NotAsked(package) | Key::OnePackage(package) | Key::Need(package, _) | Key::Broken(package, _) => Some(package.clone()),
            Key::OneProvider(_) => None,
        }
    }

    /// The packages that a fact leads to.
    fn packages(&self, key: &Key) -> Vec<String> {
        let mut packages: Vec<String> = match key {
            Key::Need(_, need) => {
                let meeting = self.universe.meeting.get(need).and_then(Option::as_ref);
                let mut packages: Vec<String> = meeting.into_iter().flatten().map(|at| self.package(*at).to_owned()).collect();
                let mut targets = Targets::default();
                self.universe.pool.need(*need).rule.targets(&mut targets);
                packages.extend(targets.packages.into_iter().map(str::to_owned));
                packages
            }
            Key::OneProvider(kind) => {
                let provides =
                    |at: &usize| self.universe.pool.item(self.universe.entities[*at].item).provides.iter().any(|api| kind.is_of(api));
                let all = (0..self.universe.entities.len()).filter(|at| self.live(*at) && provides(at));
                all.map(|at| self.package(at).to_owned()).collect()
            }
            _ => self.about(key).into_iter().collect(),
        };
        packages.sort();
        packages.dedup();
        packages
    }

    fn package(&self, at: usize) -> &str {
        &self.universe.pool.item(self.universe.entities[at].item).package
    }

    /// Returns whether no other fact of the core bars a bundle.
    fn live(&self, at: usize) -> bool {
        let entity = &self.universe.entities[at];
        !entity.bars.iter().any(|bar| self.core.contains(bar))
    }

    /// Bundles in words, and whether there are several.
    fn named(&self, entities: impl Iterator<Item = usize>) -> (String, bool) {
        let mut items: Vec<ItemId> = entities.map(|at| self.universe.entities[at].item).collect();
        items.sort_by(|a, b| {
            let (a, b) = (self.universe.pool.item(*a), self.universe.pool.item(*b));
            (&a.package, &a.version, &a.label).cmp(&(&b.package, &b.version, &b.label))
        });
        let mut labels: Vec<&str> = items.iter().map(|id| self.universe.pool.item(*id).label.as_str()).collect();
        labels.dedup();
        let text = match labels.as_slice() {
            [] => "nothing".to_owned(),
            [one] => (*one).to_owned(),
            [first @ .., last] if labels.len() <= MOST_NAMED => format!("{} and {last}", first.join(", ")),
            [first, .., last] => format!("{first} to {last} ({} bundles)", labels.len()),
        };
        (text, labels.len() > 1)
    }

    fn fact(&mut self, key: &Key) -> Fact {
        let subject = |root: usize| self.input.problem.roots[root].subject.clone();
        let of = |kind, root: usize, text: String| Fact { kind, subject: Some(subject(root)), text };
        let bare = |kind, text| Fact { kind, subject: None, text };
        match key {
            Key::Wanted(root) => of(FactKind::Wanted, *root, format!("{} wants package {}", subject(*root), self.input.package(*root))),
            Key::Filter(root, kind) => of(*kind, *root, self.filter(*root, *kind)),
            Key::Stays(root) => {
                let (stays, _) = self.named(self.staying(*root));
                let text = match &self.input.asked[*root] {
                    Err(refusal) => format!("{} stays at {stays}, because: {refusal}", subject(*root)),
                    Ok(_) => format!("{} cannot be met itself and stays at {stays}", subject(*root)),
                };
                of(FactKind::Stays, *root, text)
            }
            Key::Absent(root) => {
                let reason = match &self.input.asked[*root] {
                    Err(refusal) => refusal.to_string(),
                    Ok(_) => "it cannot be met itself".to_owned(),
                };
                of(
                    FactKind::Refused,
                    *root,
                    format!("{} gets no bundle of package {}: {reason}", subject(*root), self.input.package(*root)),
                )
            }
            Key::NotAsked(package) => bare(FactKind::NotAsked, format!("nobody asks for package {package}")),
            Key::OnePackage(package) => {
                let roots = (0..self.input.asked.len()).filter(|root| self.input.package(*root) == package);
                let roots: Vec<String> = roots.map(subject).collect();
                bare(FactKind::OnePackage, format!("package {package} can be installed once, and {} want it", roots.join(" and ")))
            }
            Key::Need(package, need) => bare(FactKind::Requirement, self.requirement(package, *need)),
            Key::Broken(package, reason) => {
                let broken = |at: &usize| self.live(*at) && self.universe.entities[*at].broken.contains(reason);
                let (names, several) = self.named(self.of_package(package).filter(broken));
                bare(
                    FactKind::Requirement,
                    format!("{names} {} a dependency that cannot be met: {reason}", if several { "have" } else { "has" }),
                )
            }
            Key::OneProvider(kind) => {
                let provides = |at: &usize| {
                    self.live(*at) && self.universe.pool.item(self.universe.entities[*at].item).provides.iter().any(|api| kind.is_of(api))
                };
                let of_package = |package: &String| self.of_package(package).filter(&provides).collect::<Vec<usize>>();
                let packages: Vec<Vec<usize>> = self.packages(key).iter().map(of_package).collect();
                bare(FactKind::OneProvider, self.one_provider(kind, packages))
            }
        }
    }

    /// The sentence that bundles of several packages provide one kind; its versions are named if they differ.
    fn one_provider(&self, kind: &Kind, packages: Vec<Vec<usize>>) -> String {
        let versions = |entities: &[usize]| {
            let all = entities.iter().flat_map(|at| &self.universe.pool.item(self.universe.entities[*at].item).provides);
            all.filter(|api| kind.is_of(api)).map(|api| api.version.as_str()).collect::<BTreeSet<&str>>()
        };
        let all: BTreeSet<&str> = packages.iter().flat_map(|entities| versions(entities)).collect();
        let provider = |entities: Vec<usize>| {
            let told = if all.len() > 1 {
                format!(" ({})", versions(&entities).into_iter().collect::<Vec<_>>().join(", "))
            } else {
                String::new()
            };
            format!("{}{told}", self.named(entities.into_iter()).0)
        };
        let Kind { group, kind: name } = kind;
        let what = match (all.len(), all.first()) {
            (1, Some(version)) => format!("{name}.{group}/{version}"),
            _ => format!("{name}.{group}"),
        };
        let names: Vec<String> = packages.into_iter().map(provider).collect();
        format!("API {what} can have one provider, and {} provide it", names.join(" and "))
    }

    fn of_package(&self, package: &str) -> impl Iterator<Item = usize> {
        self.universe.by_package.get(package).into_iter().flatten().copied()
    }

    fn staying(&self, root: usize) -> impl Iterator<Item = usize> {
        (0..self.universe.entities.len()).filter(move |at| self.universe.entities[*at].role == Role::Stays(root))
    }

    fn filter(&self, root: usize, kind: FactKind) -> String {
        let subject = &self.input.problem.roots[root].subject;
        let (request, package) = (&self.input.problem.roots[root].request, self.input.package(root));
        match kind {
            FactKind::Range => format!("{package} is pinned to {} by {subject}", request.version.as_deref().unwrap_or_default()),
            FactKind::Channels => format!("{package} is limited to channels [{}] by {subject}", request.channels.join(" ")),
            FactKind::Edges => {
                let installed = request.installed.as_ref().map_or("", |bundle| bundle.version.as_str());
                let edges = Key::Filter(root, FactKind::Edges);
                let candidates = self.universe.candidates.get(&root).into_iter().flatten().copied();
                let (targets, _) = self.named(candidates.filter(|at| !self.universe.entities[*at].bars.contains(&edges)));
                format!("{subject} has {package} {installed} installed, which may go on only as {targets}")
            }
            FactKind::NoWayBack => {
                let installed = request.installed.as_ref().map_or("", |bundle| bundle.version.as_str());
                format!("{subject} has {package} {installed} installed, which does not go back to an older version for others")
            }
            FactKind::Catalogs => {
                let selector = request.selector.as_ref().map(ToString::to_string).unwrap_or_default();
                format!("{package} may come only from catalogs that {subject} selects ({selector})")
            }
            _ => {
                let catalogs = self.tied(root);
                format!("catalogs {} of one priority have package {package}, and {subject} does not say which", catalogs.join(" and "))
            }
        }
    }

    fn tied(&self, root: usize) -> Vec<&str> {
        let tied = Key::Filter(root, FactKind::Tied);
        let candidates = self.universe.candidates.get(&root).into_iter().flatten();
        let entities = candidates.map(|at| &self.universe.entities[*at]).filter(|entity| entity.bars.contains(&tied));
        let names: BTreeSet<&str> = entities.map(|entity| self.universe.pool.catalog_name(entity.item)).collect();
        names.into_iter().collect()
    }

    fn requirement(&self, package: &str, id: NeedId) -> String {
        let needs = |at: &usize| self.live(*at) && self.universe.entities[*at].needs.contains(&id);
        let (names, several) = self.named(self.of_package(package).filter(needs));
        let need = self.universe.pool.need(id);
        let meeting = self.universe.meeting.get(&id).and_then(Option::as_ref);
        let meeting: Vec<usize> = meeting.into_iter().flatten().copied().filter(|at| self.package(*at) != package).collect();
        let more = match (&need.rule, meeting.is_empty()) {
            _ if need.forbids => String::new(),
            (Rule::Package { name, .. }, true) => match self.universe.pool.versions(name) {
                none if none.is_empty() && self.universe.pool.has(name) => ", which is in no channel".to_owned(),
                none if none.is_empty() => ", which no catalog has".to_owned(),
                versions if versions.len() <= MOST_NAMED => format!(", and catalogs have only {}", versions.join(", ")),
                versions => format!(", and catalogs have only {} to {}", versions[0], versions[versions.len() - 1]),
            },
            (Rule::Package { .. }, false) => String::new(),
            (Rule::Api(_), true) => ", which nothing provides".to_owned(),
            (Rule::Api(_), false) => format!(", which only {} can provide", self.by_package(meeting)),
            (_, true) => ", which no bundle is".to_owned(),
            (_, false) => format!(", which only {} can be", self.by_package(meeting)),
        };
        format!("{names} {}{more}", need.said(several))
    }

    /// Bundles of several packages in words.
    fn by_package(&self, entities: Vec<usize>) -> String {
        let mut packages: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for at in entities {
            packages.entry(self.package(at)).or_default().push(at);
        }
        let count = packages.len();
        let names: Vec<String> = packages.into_values().take(MOST_NAMED).map(|all| self.named(all.into_iter()).0).collect();
        let more =
            if count > MOST_NAMED { format!(" or bundles of {}", counted(count - MOST_NAMED, "other package")) } else { String::new() };
        format!("{}{more}", names.join(" or "))
    }
}
