//! Which file of a crate imports which: read from the source, so that a test can refuse circles.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The imports of a crate, from module to module. `a::b` is the file `a/b.rs`, and the crate's root has no name.
///
/// Imports are the paths that start with `crate`, `super` or `self`. A folder's own file that calls its parts by their bare names
/// (`part::run()`) does not import them: a folder and its parts are one thing there.
#[derive(Debug, Default)]
pub struct ModuleGraph {
    imports: BTreeMap<String, BTreeSet<String>>,
}

/// What a `mod.rs` re-exports: from the module and the name to the module that defines it.
type Reexports = BTreeMap<(String, String), String>;

impl ModuleGraph {
    /// Reads every file below a crate's `src`. Unit tests are left out: they may import anything.
    pub fn read(src: &Path) -> Self {
        let mut sources = BTreeMap::new();
        collect(src, "", &mut sources);
        let reexports = reexports(&sources);
        let mut graph = Self::default();
        for (module, text) in &sources {
            let targets =
                paths(module, text).iter().map(|path| resolve(path, &sources, &reexports)).collect();
            graph.imports.insert(module.clone(), targets);
        }
        for (module, targets) in &mut graph.imports {
            // A folder's own file declares its modules, and the root re-exports: neither is an import.
            targets.retain(|target| target != module && !target.is_empty());
        }
        graph
    }

    /// Modules that import each other, directly or through others: one way around, or none.
    pub fn circle(&self) -> Option<Vec<String>> {
        let mut done = BTreeSet::new();
        self.imports.keys().find_map(|start| self.visit(start, &mut Vec::new(), &mut done))
    }

    fn visit(&self, module: &str, way: &mut Vec<String>, done: &mut BTreeSet<String>) -> Option<Vec<String>> {
        if let Some(start) = way.iter().position(|passed| passed == module) {
            return Some(way[start..].to_vec());
        }
        if !done.insert(module.to_owned()) {
            return None;
        }
        way.push(module.to_owned());
        let imports = self.imports.get(module).into_iter().flatten();
        let circle = imports.into_iter().find_map(|target| {
            let was_done = done.contains(target) && !way.contains(target);
            if was_done { None } else { self.visit(target, way, done) }
        });
        way.pop();
        circle
    }

    /// Imports that run against the order of the rooms, which are the crate's top-level modules: each may import those after
    /// it. Modules that the order does not name may import any, and nothing may import them.
    pub fn against(&self, order: &[&str]) -> Vec<String> {
        let room = |module: &str| module.split("::").next().unwrap_or_default().to_owned();
        let rank = |module: &str| order.iter().position(|name| *name == room(module));
        let mut wrong = Vec::new();
        for (module, targets) in &self.imports {
            for target in targets.iter().filter(|target| room(target) != room(module)) {
                let is_allowed = match (rank(module), rank(target)) {
                    (Some(from), Some(to)) => from < to,
                    (None, Some(_)) => true,
                    (_, None) => module.is_empty(),
                };
                if !is_allowed {
                    wrong.push(format!("{module} imports {target}"));
                }
            }
        }
        wrong
    }
}

fn collect(folder: &Path, module: &str, sources: &mut BTreeMap<String, String>) {
    let join = |name: &str| if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") };
    for entry in fs::read_dir(folder).expect("the source can be read").map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
        if path.is_dir() {
            collect(&path, &join(&name), sources);
        } else if let Some(stem) = name.strip_suffix(".rs").filter(|stem| *stem != "tests") {
            let module = if matches!(stem, "lib" | "main" | "mod") { module.to_owned() } else { join(stem) };
            let text = fs::read_to_string(&path).unwrap();
            let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
            sources.insert(module, without_tests(&lines.collect::<Vec<_>>().join("\n")));
        }
    }
}

/// The text without the items that only tests have. What `rustfmt` has written ends an item at the indent that it began at.
fn without_tests(text: &str) -> String {
    let mut kept = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(indent) = line.strip_suffix("#[cfg(test)]") else {
            kept.push(line);
            continue;
        };
        let closing = format!("{indent}}}");
        for (number, line) in lines.by_ref().enumerate() {
            if line == closing || (number == 0 && line.ends_with([';', '}', ','])) {
                break;
            }
        }
    }
    kept.join("\n")
}

fn reexports(sources: &BTreeMap<String, String>) -> Reexports {
    let mut found = Reexports::new();
    for (module, text) in sources {
        for statement in text.split(';') {
            let statement = statement.trim();
            let Some(start) = statement.find("pub use ").or_else(|| statement.find("pub(crate) use ")) else {
                continue;
            };
            let (_, tree) = statement[start..].split_once("use ").unwrap_or_default();
            for path in expand(tree) {
                let (path, alias) = path.split_once(" as ").unwrap_or((&path, ""));
                let path = absolute(module, path);
                let Some((defined_in, name)) = path.rsplit_once("::") else { continue };
                // A macro is exported by the module that defines it.
                if defined_in == module {
                    continue;
                }
                let name = if alias.is_empty() { name } else { alias };
                found.insert((module.clone(), name.to_owned()), defined_in.to_owned());
            }
        }
    }
    found
}

/// Every path of a module into its own crate, from the crate's root.
fn paths(module: &str, text: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in text.match_indices(start) {
            let is_start =
                !text[..at].ends_with(|letter: char| letter.is_alphanumeric() || "_:$".contains(letter));
            if !is_start {
                continue;
            }
            let end = end_of_path(&text[at..]);
            paths.extend(expand(&text[at..at + end]).iter().map(|path| absolute(module, path)));
        }
    }
    paths
}

/// Where a path, possibly with braces, ends.
fn end_of_path(text: &str) -> usize {
    let mut depth = 0;
    for (at, letter) in text.char_indices() {
        match letter {
            '{' if text[..at].ends_with("::") || depth > 0 => depth += 1,
            '}' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            letter if depth == 0 && !letter.is_alphanumeric() && !"_:".contains(letter) => return at,
            _ => {}
        }
    }
    text.len()
}

/// The single paths of `a::{b, c::{d, e}}`.
fn expand(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((before, inside)) = tree.split_once('{') else { return vec![tree.to_owned()] };
    let inside = inside.trim_end().strip_suffix('}').unwrap_or(inside);
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, letter) in inside.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inside[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inside[start..]);
    let parts = parts.into_iter().filter(|part| !part.trim().is_empty());
    parts.flat_map(expand).map(|part| format!("{before}{part}")).collect()
}

fn absolute(module: &str, path: &str) -> String {
    let path = path.split(" as ").next().unwrap_or_default().trim();
    let mut base: Vec<&str> = module.split("::").filter(|name| !name.is_empty()).collect();
    let mut segments: Vec<&str> = path.split("::").map(str::trim).collect();
    match segments.first() {
        Some(&"crate") => {
            base.clear();
            segments.remove(0);
        }
        Some(&"self") => {
            segments.remove(0);
        }
        _ => {
            while segments.first() == Some(&"super") {
                base.pop();
                segments.remove(0);
            }
        }
    }
    base.extend(segments.into_iter().filter(|segment| !segment.is_empty() && *segment != "self"));
    base.join("::")
}

/// The module that defines what a path names.
fn resolve(path: &str, sources: &BTreeMap<String, String>, reexports: &Reexports) -> String {
    let segments: Vec<&str> = path.split("::").collect();
    let mut module = String::new();
    for segment in segments {
        let next = if module.is_empty() { segment.to_owned() } else { format!("{module}::{segment}") };
        if sources.contains_key(&next) {
            module = next;
            continue;
        }
        let mut name = (module.clone(), segment.to_owned());
        while let Some(defined_in) = reexports.get(&name).filter(|target| sources.contains_key(*target)) {
            name.0.clone_from(defined_in);
        }
        return name.0;
    }
    module
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(files: &[(&str, &str)]) -> ModuleGraph {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        ModuleGraph::read(folder.path())
    }

    #[test]
    fn a_circle_through_a_reexport_is_found() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "mod one;\npub(crate) use self::one::One;"),
            ("a/one.rs", "use crate::b::{Two, three};\npub(crate) struct One;"),
            ("b.rs", "fn two() -> crate::a::One {}\n#[cfg(test)]\nmod tests { use crate::c::X; }"),
        ];
        let graph = graph(&files);
        assert_eq!(graph.circle(), Some(vec!["a::one".to_owned(), "b".to_owned()]));
        assert_eq!(graph.against(&["a", "b"]), ["b imports a::one"]);
    }

    #[test]
    fn code_after_tests_is_read_too() {
        let one = "#[cfg(test)]\nmod tests {\n    use crate::c::X;\n}\n\nuse crate::two::Two;\n";
        let two = "#[cfg(test)]\nuse crate::three::Three;\nuse crate::one::One;\n";
        assert!(
            graph(&[("lib.rs", "mod one; mod two;"), ("one.rs", one), ("two.rs", two)]).circle().is_some()
        );
        let two = "#[cfg(test)]\nuse crate::one::One;\n";
        assert_eq!(
            graph(&[("lib.rs", "mod one; mod two;"), ("one.rs", one), ("two.rs", two)]).circle(),
            None
        );
    }

    #[test]
    fn imports_that_run_one_way_are_fine() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use a::x::One;"),
            ("a/mod.rs", "pub mod x; pub mod y;"),
            ("a/x.rs", "use super::y::Y; use crate::b::B;"),
            ("a/y.rs", "use crate::b::B as C;"),
            ("b.rs", "macro_rules! m {} pub(crate) use m; fn b() { crate::b::m!() }"),
        ];
        let graph = graph(&files);
        assert_eq!(graph.circle(), None);
        assert_eq!(graph.against(&["a", "b"]), Vec::<String>::new());
        assert_eq!(graph.against(&["b", "a"]).len(), 2);
    }
}
