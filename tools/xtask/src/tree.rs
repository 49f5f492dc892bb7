//! The files of the repository as the rules see them: what git tracks or would track, or where
//! git does not know the folder (an unpacked archive, another user's files) all but what is made.
//!
//! Assumes: paths are UTF-8 with `/`. Files that are no UTF-8 text keep an empty text, so that
//! links to them resolve.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::run;

/// Folders that are no part of the repository, wherever they stand.
const MADE: [&str; 6] = [".git", "artifacts", "coverage", "data", "node_modules", "target"];

/// One file: its path from the root and its text.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// All files, sorted by path.
#[derive(Debug)]
pub(crate) struct Tree {
    root: PathBuf,
    files: Vec<File>,
    names: BTreeSet<String>,
}

impl Tree {
    /// Reads the work tree below `root`, ignored files left out.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let paths = tracked(root).or_else(|_| walked(root))?;
        let mut files = Vec::new();
        for path in paths {
            // Deleted but not yet staged, or a link to a folder.
            let Ok(bytes) = std::fs::read(root.join(&path)) else { continue };
            files.push(File { path, text: String::from_utf8(bytes).unwrap_or_default() });
        }
        Ok(Self::new(root, files))
    }

    /// A tree of given files.
    pub(crate) fn new(root: &Path, files: Vec<File>) -> Self {
        let mut names = BTreeSet::new();
        for file in &files {
            let mut name = file.path.as_str();
            names.insert(name.to_owned());
            while let Some((folder, _)) = name.rsplit_once('/') {
                names.insert(folder.to_owned());
                name = folder;
            }
        }
        Self { root: root.to_owned(), files, names }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn files(&self) -> &[File] {
        &self.files
    }

    /// Files whose path ends in `suffix`.
    pub(crate) fn ending<'a>(&'a self, suffix: &'a str) -> impl Iterator<Item = &'a File> {
        self.files.iter().filter(move |file| file.path.ends_with(suffix))
    }

    /// The file at exactly `path`.
    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Whether `path` is a file or a folder of the repository.
    pub(crate) fn contains(&self, path: &str) -> bool {
        path.is_empty() || self.names.contains(path)
    }
}

/// The paths that git tracks or would track.
fn tracked(root: &Path) -> Result<BTreeSet<String>> {
    let line = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let (listing, _) = run::capture(run::program(root, &line))?;
    let paths: BTreeSet<_> = listing.split('\0').filter(|path| !path.is_empty()).collect();
    ensure!(paths.contains("Cargo.toml"), "git does not track this folder");
    Ok(paths.into_iter().map(str::to_owned).collect())
}

/// The paths of all files outside of folders that builds and runs make.
fn walked(root: &Path) -> Result<BTreeSet<String>> {
    let (mut paths, mut folders) = (BTreeSet::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            let name = entry.file_name();
            if kind.is_dir() && !MADE.iter().any(|made| name == *made) {
                folders.push(path);
            } else if kind.is_file() {
                let path = path.strip_prefix(root)?.to_str().context("a path that is no UTF-8")?;
                paths.insert(path.to_owned());
            }
        }
    }
    Ok(paths)
}

/// What stands behind the last dot of a path's name.
pub(crate) fn extension(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').map_or("", |(_, extension)| extension)
}

/// The top of the repository: of the crate that cargo runs, which need not be where this binary
/// was built.
pub(crate) fn root() -> Result<PathBuf> {
    let built = || env!("CARGO_MANIFEST_DIR").into();
    let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(built);
    let here = Path::new(&here);
    let root = here.ancestors().nth(2).context("the tool lies two folders below the root")?;
    Ok(root.to_owned())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A tree of `(path, text)` for the tests of the rules.
    pub(crate) fn tree(files: &[(&str, &str)]) -> Tree {
        let file =
            |&(path, text): &(&str, &str)| File { path: path.to_owned(), text: text.to_owned() };
        Tree::new(Path::new("."), files.iter().map(file).collect())
    }

    #[test]
    fn folders_of_files_are_contained() {
        let tree = tree(&[("a/b/c.md", "")]);
        assert!(tree.contains("a") && tree.contains("a/b") && tree.contains("a/b/c.md"));
        assert!(!tree.contains("b") && !tree.contains("a/b/c"));
    }

    #[test]
    fn without_git_sources_are_found_and_what_is_made_is_not() {
        let paths = walked(&root().unwrap()).unwrap();
        assert!(paths.contains("Cargo.toml") && paths.contains("tools/xtask/src/tree.rs"));
        assert!(!paths.iter().any(|path| path.starts_with("target/")));
    }

    #[test]
    fn an_extension_belongs_to_the_name() {
        assert_eq!(["a/b.rs", "a.b/c", ".ci/run", "x"].map(extension), ["rs", "", "", ""]);
    }

    #[test]
    fn the_root_holds_the_workspace() {
        assert!(root().unwrap().join("Cargo.toml").is_file());
    }
}
