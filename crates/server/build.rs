//! Lists the files of the console (`console/dist`), so that they are compiled into the binary.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    if variable("CARGO_FEATURE_CONSOLE").is_err() {
        return Ok(());
    }
    let directory = PathBuf::from(variable("CARGO_MANIFEST_DIR")?).join("../../console/dist");
    let mut files = BTreeSet::new();
    if directory.is_dir() {
        println!("cargo::rerun-if-changed={}", directory.display());
        collect(&directory, &directory, &mut files)?;
    } else {
        // Cargo runs this at every build if it is told to watch what does not exist.
        println!("cargo::warning=console/dist is missing: this binary has no console");
    }
    let list = Path::new(&variable("OUT_DIR")?).join("console_files.rs");
    fs::write(list, list_of(&directory, &files)?)
}

#[expect(clippy::disallowed_methods, reason = "cargo tells build scripts what they need in this way only")]
fn variable(name: &str) -> io::Result<String> {
    env::var(name).map_err(io::Error::other)
}

/// The paths of all files under a directory, relative to `root` and with slashes.
fn collect(root: &Path, directory: &Path, files: &mut BTreeSet<String>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, files)?;
        } else {
            let relative = path.strip_prefix(root).map_err(io::Error::other)?;
            let parts: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
            files.insert(parts.join("/"));
        }
    }
    Ok(())
}

/// The list as Rust: each file with its compressed forms, which lie beside it as `.br` and `.gz`.
fn list_of(directory: &Path, files: &BTreeSet<String>) -> io::Result<String> {
    let mut text = String::from("static FILES: &[EmbeddedFile] = &[\n");
    let include = |path: &str| {
        let path = fs::canonicalize(directory.join(path))?;
        Ok::<_, io::Error>(format!("include_bytes!({:?})", path.display().to_string()))
    };
    let include_if_there = |path: String| {
        let bytes = files.contains(&path).then(|| include(&path)).transpose()?;
        Ok::<_, io::Error>(bytes.map_or_else(|| "None".to_owned(), |bytes| format!("Some({bytes})")))
    };
    let is_compressed_form = |path: &&String| {
        [".br", ".gz"].iter().any(|end| path.strip_suffix(end).is_some_and(|of| files.contains(of)))
    };
    for path in files.iter().filter(|path| !is_compressed_form(path)) {
        let bytes = include(path)?;
        let brotli = include_if_there(format!("{path}.br"))?;
        let gzip = include_if_there(format!("{path}.gz"))?;
        writeln!(
            text,
            "    EmbeddedFile {{ path: {path:?}, bytes: {bytes}, brotli: {brotli}, gzip: {gzip} }},"
        )
        .map_err(io::Error::other)?;
    }
    text.push_str("];\n");
    Ok(text)
}
