//! The shape of the code, asserted: functions that fit on a screen or two, parameters with names, types whose names
//! tell them apart, files that do not import each other in wide circles, verbs that do not import each other, and
//! libraries that do not read the environment. It reads what programs and libraries are made of; of tests only whether
//! their program has each file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, FnArg, Item, Macro, Signature, Type, UseTree};

/// The most lines of a function, from its name to its closing brace.
const LONGEST: usize = 100;
/// The most values of a tuple in a parameter.
const WIDEST: usize = 2;
/// The most files that import each other in a circle.
const LARGEST_CIRCLE: usize = 8;

#[test]
fn functions_and_their_parameters_are_small() {
    let mut faults = Vec::new();
    for root in roots() {
        for module in Crate::read(&root).modules {
            let file = module.file.clone();
            let mut reader = Functions { file, faults: &mut faults };
            module.items.iter().for_each(|item| reader.visit_item(item));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn files_import_each_other_in_small_circles_only() {
    let mut faults = Vec::new();
    for root in roots() {
        for circle in circles(&Crate::read(&root).imports()) {
            if circle.len() > LARGEST_CIRCLE {
                let names: Vec<_> = circle.iter().map(|file| file.display().to_string()).collect();
                faults.push(format!(
                    "{} files import each other in a circle: {}",
                    names.len(),
                    names.join(", ")
                ));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// What verbs share is in `ui` and `list_check`; the parser and the roof know the verbs, and nobody knows them.
#[test]
fn no_verb_of_the_command_imports_another() {
    let root = roots().into_iter().find(|root| root.ends_with("cli/src/lib.rs")).unwrap();
    let mut faults = BTreeSet::new();
    let mut verbs = BTreeSet::new();
    for module in &Crate::read(&root).modules {
        let verb = match module.path.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["commands", verb, ..] => verb,
            [] | ["verisum" | "args"] => continue,
            _ => "",
        };
        verbs.insert(verb.to_string());
        for path in module.named() {
            let is_foreign = match path.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                ["commands", other, ..] => other != verb,
                ["commands" | "args" | "verisum", ..] => true,
                _ => false,
            };
            if is_foreign {
                faults.insert(format!("{}: {}", module.file.display(), path.join("::")));
            }
        }
    }
    assert!(verbs.len() > 15, "{verbs:?}");
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Whoever calls a library says what it shall know. Programs read the environment, and tests do.
#[test]
fn libraries_do_not_read_the_environment() {
    let mut faults = BTreeSet::new();
    let programs = ["cli/src", "testkit/src"].map(Path::new);
    for root in
        roots().into_iter().filter(|root| !programs.iter().any(|one| root.parent().unwrap().ends_with(one)))
    {
        for module in Crate::read(&root).modules {
            let reads = |path: &Vec<String>| {
                path.windows(2).any(|part| part[0] == "env" && part[1].starts_with("var"))
            };
            faults.extend(module.named().iter().any(reads).then_some(module.file));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Public ones are told apart by the module that stands before them; all others are read without it.
#[test]
fn types_of_a_crate_have_names_of_their_own() {
    let mut faults = Vec::new();
    // The package's types have the names that Python shows, each in a module of its own.
    for root in roots().into_iter().filter(|root| !root.ends_with("python/src/lib.rs")) {
        let mut types: BTreeMap<String, BTreeMap<PathBuf, bool>> = BTreeMap::new();
        for module in Crate::read(&root).modules {
            for item in &module.items {
                let (name, visibility) = match item {
                    Item::Struct(one) => (&one.ident, &one.vis),
                    Item::Enum(one) => (&one.ident, &one.vis),
                    Item::Trait(one) => (&one.ident, &one.vis),
                    _ => continue,
                };
                let is_public = matches!(visibility, syn::Visibility::Public(_));
                types.entry(name.to_string()).or_default().insert(module.file.clone(), is_public);
            }
        }
        for (name, files) in types {
            if files.len() > 1 && files.values().any(|is_public| !is_public) {
                let files: Vec<_> = files.keys().map(|file| file.display().to_string()).collect();
                faults.push(format!("{name} is a type in {}", files.join(" and in ")));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A file that no program names would be compiled by nobody, and its tests would never run.
#[test]
fn every_file_of_tests_is_in_its_program() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let entries = |folder: &Path| -> Vec<PathBuf> {
        fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
    };
    let folders = entries(&crates).into_iter().flat_map(|one| entries(&one.join("tests")));
    let programs: Vec<_> = folders.filter(|folder| folder.join("main.rs").exists()).collect();
    assert!(programs.len() > 10, "{programs:?}");
    for folder in programs {
        let main = parsed(&folder.join("main.rs"));
        let modules = main.iter().filter_map(|item| match item {
            Item::Mod(module) => Some(folder.join(format!("{}.rs", module.ident))),
            _ => None,
        });
        let known: BTreeSet<_> = modules.chain([folder.join("main.rs")]).collect();
        let is_code = |file: &PathBuf| file.extension().is_some_and(|end| end == "rs");
        let lost: Vec<_> =
            entries(&folder).into_iter().filter(|file| is_code(file) && !known.contains(file)).collect();
        assert!(lost.is_empty(), "main.rs does not name {lost:?}");
    }
}

/// The root files of all crates.
fn roots() -> Vec<PathBuf> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut folders: Vec<_> =
        fs::read_dir(top.join("crates")).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.push(top.join("python"));
    let programs = fs::read_dir(top.join("crates/cli/src/bin")).unwrap().map(|entry| entry.unwrap().path());
    let files = folders.iter().flat_map(|folder| ["src/lib.rs", "src/main.rs"].map(|name| folder.join(name)));
    let found: Vec<_> = files.filter(|file| file.exists()).chain(programs).collect();
    assert!(found.len() > 15, "{found:?}");
    found
}

/// A path that is imported, the name that it gets, and whether it is for its module alone.
type Import = (Vec<String>, String, bool);

/// A module: its path in its crate, the file it is in, and what is in it.
struct Module {
    path: Vec<String>,
    file: PathBuf,
    items: Vec<Item>,
}

impl Module {
    /// The paths of its `use` items, each with the name that it gets and whether it is for this module alone; and
    /// those that its code names besides.
    fn paths(&self) -> (Vec<Import>, Vec<Vec<String>>) {
        let mut reader = Paths { module: &self.path, found: Vec::new() };
        let mut imported = Vec::new();
        for item in &self.items {
            let Item::Use(item) = item else {
                reader.visit_item(item);
                continue;
            };
            let is_own = matches!(item.vis, syn::Visibility::Inherited);
            let mut leaves = Vec::new();
            flatten(&item.tree, &mut Vec::new(), &mut leaves);
            let whole = |(path, name): (Vec<_>, _)| (absolute(&self.path, &path), name, is_own);
            imported.extend(leaves.into_iter().map(whole));
        }
        (imported, reader.found)
    }

    /// All of them.
    fn named(&self) -> Vec<Vec<String>> {
        let (imported, mut all) = self.paths();
        all.extend(imported.into_iter().map(|(path, ..)| path));
        all
    }
}

struct Crate {
    modules: Vec<Module>,
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|one| {
        one.path().is_ident("test")
            || one.path().is_ident("cfg")
                && one.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

impl Crate {
    fn read(root: &Path) -> Crate {
        let mut all = Crate { modules: Vec::new() };
        all.add(Vec::new(), root.to_path_buf(), root.parent().unwrap(), parsed(root));
        all
    }

    /// Adds a module and those in it, whose files are in `folder`.
    fn add(&mut self, path: Vec<String>, file: PathBuf, folder: &Path, items: Vec<Item>) {
        let mut own = Vec::new();
        for item in items {
            match item {
                Item::Mod(inner) if is_test(&inner.attrs) => {}
                Item::Mod(inner) => {
                    let name = inner.ident.to_string();
                    let inside = [path.clone(), vec![name.clone()]].concat();
                    let below = folder.join(&name);
                    match inner.content {
                        Some((_, items)) => self.add(inside, file.clone(), &below, items),
                        None => {
                            let beside = folder.join(format!("{name}.rs"));
                            let found = if beside.exists() { beside } else { below.join("mod.rs") };
                            let items = parsed(&found);
                            self.add(inside, found, &below, items);
                        }
                    }
                }
                Item::Fn(function) if is_test(&function.attrs) => {}
                item => own.push(item),
            }
        }
        self.modules.push(Module { path, file, items: own });
    }

    /// Which files name things of which others. A file that only exports what others have imports nothing.
    fn imports(&self) -> BTreeMap<PathBuf, BTreeSet<PathBuf>> {
        let modules: BTreeMap<_, _> =
            self.modules.iter().map(|module| (module.path.clone(), module)).collect();
        let mut exports: BTreeMap<(Vec<String>, String), Vec<String>> = BTreeMap::new();
        let mut uses = Vec::new();
        for module in &self.modules {
            let (imported, mut found) = module.paths();
            for (path, name, is_own) in imported {
                exports.insert((module.path.clone(), name), path.clone());
                found.extend(is_own.then_some(path));
            }
            uses.extend(found.into_iter().map(|path| (module.file.clone(), path)));
        }
        let mut imports: BTreeMap<PathBuf, BTreeSet<PathBuf>> = BTreeMap::new();
        for (file, path) in uses {
            if let Some(other) = self.file_of(path, &modules, &exports)
                && *other != file
                && !is_part(&file, other)
            {
                imports.entry(file).or_default().insert(other.clone());
            }
        }
        imports
    }

    /// The file that has what `path` names, behind all exports of it.
    fn file_of<'a>(
        &self,
        mut path: Vec<String>,
        modules: &BTreeMap<Vec<String>, &'a Module>,
        exports: &BTreeMap<(Vec<String>, String), Vec<String>>,
    ) -> Option<&'a PathBuf> {
        // An export may be of an export, but not for ever.
        for _ in 0..16 {
            let depth = (0..=path.len()).rev().find(|depth| modules.contains_key(&path[..*depth]))?;
            let (module, rest) = path.split_at(depth);
            let Some(name) = rest.first() else { return Some(&modules[module].file) };
            match exports.get(&(module.to_vec(), name.clone())) {
                Some(target) if *target != path => path = [target.clone(), rest[1..].to_vec()].concat(),
                _ => return (depth > 0 || rest.len() == 1).then(|| &modules[module].file),
            }
        }
        None
    }
}

/// Whether a file is in the folder that `whole` is the module of. A module and its parts are one thing; what counts is
/// who imports whose parts. The root of a crate is no such module: what it has would be everybody's.
fn is_part(file: &Path, whole: &Path) -> bool {
    let folder = match whole.file_stem().and_then(|name| name.to_str()) {
        Some("mod") => whole.parent().unwrap().to_path_buf(),
        Some("lib" | "main") | None => return false,
        Some(_) => whole.with_extension(""),
    };
    file.starts_with(folder)
}

fn parsed(file: &Path) -> Vec<Item> {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display())).items
}

/// The paths of a `use`, each with the name that it gets.
fn flatten(tree: &UseTree, before: &mut Vec<String>, all: &mut Vec<(Vec<String>, String)>) {
    let mut leaf = |last: String, name: String| {
        let end = (last != "self").then_some(last);
        let path: Vec<_> = before.iter().cloned().chain(end).collect();
        let name = if name == "self" { path.last().cloned().unwrap_or_default() } else { name };
        all.push((path, name));
    };
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            flatten(&path.tree, before, all);
            before.pop();
        }
        UseTree::Name(name) => leaf(name.ident.to_string(), name.ident.to_string()),
        UseTree::Rename(name) => leaf(name.ident.to_string(), name.rename.to_string()),
        UseTree::Glob(_) => leaf("self".into(), "*".into()),
        UseTree::Group(group) => group.items.iter().for_each(|tree| flatten(tree, before, all)),
    }
}

/// A path from the root of its crate.
fn absolute(module: &[String], path: &[String]) -> Vec<String> {
    let up = path.iter().take_while(|part| *part == "super").count();
    match path.first().map(String::as_str) {
        Some("crate") => path[1..].to_vec(),
        Some("self") => [module, &path[1..]].concat(),
        Some("super") => [&module[..module.len() - up], &path[up..]].concat(),
        // Of a module beside it, if there is one of this name; else what is found is the file itself.
        _ => [module, path].concat(),
    }
}

/// Reads the paths that code names without a `use`.
struct Paths<'a> {
    module: &'a [String],
    found: Vec<Vec<String>>,
}

impl<'ast> Visit<'ast> for Paths<'_> {
    // `pub(crate)` names no thing of the root.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<_> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        self.found.push(absolute(self.module, &parts));
        visit::visit_path(self, path);
    }

    // What `format!` and its likes are given is code, too.
    fn visit_macro(&mut self, call: &'ast Macro) {
        self.tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }
}

impl Paths<'_> {
    /// Takes the paths of several parts; one name alone may be that of anything.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(first) => {
                    let mut parts = vec![first.to_string()];
                    while tokens.next_if(is_colon).is_some() {
                        if tokens.next_if(is_colon).is_some()
                            && let Some(TokenTree::Ident(part)) =
                                tokens.next_if(|token| matches!(token, TokenTree::Ident(_)))
                        {
                            parts.push(part.to_string());
                        }
                    }
                    if parts.len() > 1 {
                        self.found.push(absolute(self.module, &parts));
                    }
                }
                _ => {}
            }
        }
    }
}

fn is_colon(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(one) if one.as_char() == ':')
}

#[test]
fn paths_are_found_in_macros_and_in_groups() {
    let text = "use crate::{commands::other, ui::{names, sizes as s}}; fn f() { \
                println!(\"{}\", vec![super::super::a::b::<u8>(1), c]); }";
    let items = syn::parse_file(text).unwrap().items;
    let path = ["commands", "verb", "part"].map(String::from).to_vec();
    let module = Module { path, file: PathBuf::new(), items };
    let found: BTreeSet<String> = module.named().iter().map(|path| path.join("::")).collect();
    for path in ["commands::other", "ui::names", "ui::sizes", "commands::a::b"] {
        assert!(found.contains(path), "{path}: {found:?}");
    }
}

struct Functions<'a> {
    file: PathBuf,
    faults: &'a mut Vec<String>,
}

impl Functions<'_> {
    fn look(&mut self, signature: &Signature, whole: proc_macro2::Span) {
        let place = format!("{}:{}: {}", self.file.display(), signature.span().start().line, signature.ident);
        let lines = whole.end().line - signature.span().start().line + 1;
        if lines > LONGEST {
            self.faults.push(format!("{place} has {lines} lines"));
        }
        for parameter in &signature.inputs {
            let FnArg::Typed(parameter) = parameter else { continue };
            let mut widest = Tuples(0);
            widest.visit_type(&parameter.ty);
            if widest.0 > WIDEST {
                self.faults.push(format!("{place} has a tuple of {} values as parameter", widest.0));
            }
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_mod(&mut self, _: &'ast syn::ItemMod) {}

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.look(&function.sig, function.span());
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.look(&function.sig, function.span());
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        self.look(&function.sig, function.span());
        visit::visit_trait_item_fn(self, function);
    }
}

/// The widest tuple in a type.
struct Tuples(usize);

impl<'ast> Visit<'ast> for Tuples {
    fn visit_type(&mut self, kind: &'ast Type) {
        if let Type::Tuple(tuple) = kind {
            self.0 = self.0.max(tuple.elems.len());
        }
        visit::visit_type(self, kind);
    }
}

/// Sets of files of which each reaches each other, by Tarjan's algorithm.
fn circles(imports: &BTreeMap<PathBuf, BTreeSet<PathBuf>>) -> Vec<Vec<PathBuf>> {
    let mut search = Search { imports, marks: BTreeMap::new(), stack: Vec::new(), circles: Vec::new() };
    imports.keys().for_each(|file| {
        search.reach(file);
    });
    search.circles
}

struct Search<'a> {
    imports: &'a BTreeMap<PathBuf, BTreeSet<PathBuf>>,
    /// When each file was reached, and the earliest that it reaches of those on the stack.
    marks: BTreeMap<PathBuf, usize>,
    stack: Vec<PathBuf>,
    circles: Vec<Vec<PathBuf>>,
}

impl Search<'_> {
    fn reach(&mut self, file: &PathBuf) -> usize {
        if let Some(mark) = self.marks.get(file) {
            return if self.stack.contains(file) { *mark } else { usize::MAX };
        }
        let mark = self.marks.len();
        self.marks.insert(file.clone(), mark);
        self.stack.push(file.clone());
        let others = self.imports.get(file).into_iter().flatten();
        let lowest = others.map(|other| self.reach(other)).min().unwrap_or(usize::MAX).min(mark);
        if lowest == mark {
            let at = self.stack.iter().rposition(|other| other == file).unwrap();
            self.circles.push(self.stack.split_off(at));
        }
        // What came later may still belong to the circle that this one is in.
        self.marks.insert(file.clone(), lowest);
        lowest
    }
}

#[test]
fn a_circle_is_found() {
    let names = |names: &[&str]| names.iter().map(PathBuf::from).collect::<BTreeSet<_>>();
    let imports = [("a", &["b"][..]), ("b", &["c", "d"]), ("c", &["a"]), ("d", &["e"]), ("e", &["d"])];
    let imports = imports.into_iter().map(|(file, others)| (PathBuf::from(file), names(others))).collect();
    let mut sizes: Vec<_> = circles(&imports).iter().map(Vec::len).collect();
    sizes.sort();
    assert_eq!(sizes, [2, 3]);
}
