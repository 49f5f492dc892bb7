//! What `strace -f -y` writes down, as calls in their order.
//!
//! Owns: lines, and calls that are cut in two because another thread's came between. Does not know:
//! what should be called.

/// A system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) name: String,
    /// The name of the file that it is about, by the first descriptor in its arguments.
    pub(crate) file: Option<String>,
    /// All between the brackets.
    pub(crate) arguments: String,
    /// It did not fail.
    pub(crate) succeeded: bool,
    /// The lines at which it was made and had ended.
    pub(crate) began: usize,
    pub(crate) ended: usize,
}

/// All calls, in the order in which they were made.
pub(crate) fn parse(text: &str) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    let mut open: Vec<(String, usize)> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let Some((thread, rest)) = line.split_once(char::is_whitespace) else { continue };
        let rest = rest.trim_start();
        if let Some(resumed) = rest.strip_prefix("<... ") {
            let Some(found) = open.iter().position(|(other, _)| other == thread) else { continue };
            let (_, call) = open.swap_remove(found);
            let end = resumed.split_once("resumed>").map_or("", |(_, end)| end);
            calls[call].arguments += end;
            finish(&mut calls[call], at);
        } else if let Some((name, arguments)) = rest.split_once('(') {
            let is_cut = arguments.ends_with("<unfinished ...>");
            let arguments = arguments.trim_end_matches("<unfinished ...>").to_owned();
            let name = name.to_owned();
            let file = file(&arguments);
            let (succeeded, ended) = (false, usize::MAX);
            calls.push(Call { name, file, arguments, succeeded, began: at, ended });
            let call = calls.len() - 1;
            if is_cut {
                open.push((thread.to_owned(), call));
            } else {
                finish(&mut calls[call], at);
            }
        }
    }
    calls
}

/// `arguments` ends with the bracket and the result.
fn finish(call: &mut Call, at: usize) {
    call.ended = at;
    if let Some((arguments, result)) = call.arguments.rsplit_once(" = ") {
        call.succeeded = !result.trim_start().starts_with('-');
        let len = arguments.trim_end().trim_end_matches(')').len();
        call.arguments.truncate(len);
    }
}

impl Call {
    pub(crate) fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// The texts in quotes, as far as they are names.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.arguments.split('"').skip(1).step_by(2).map(last).collect()
    }

    /// Where a plain write goes.
    pub(crate) fn offset(&self) -> Option<&str> {
        self.arguments.rsplit_once(", ").map(|(_, offset)| offset.trim())
    }

    pub(crate) fn has(&self, flag: &str) -> bool {
        self.arguments.contains(flag)
    }
}

fn file(arguments: &str) -> Option<String> {
    let descriptor = arguments.split_once("aio_fildes=").map_or(arguments, |(_, behind)| behind);
    let (_, path) = descriptor.split_once('<')?;
    let (path, _) = path.split_once('>')?;
    Some(last(path).to_owned())
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
