//! Questions to the person at the terminal. Without a terminal nothing is asked.

use std::io::{IsTerminal as _, Read as _, Write as _};

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

use crate::cells::harmless;
use crate::failure::Failure;

/// Whether somebody can be asked.
pub(crate) fn is_interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks whether to do what cannot be undone. Without a terminal, `--yes` has to say so.
pub(crate) fn confirm(question: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !is_interactive() {
        return Err(Failure::Usage(format!("{question} Say so with --yes: there is no terminal to ask at.")));
    }
    let reply = ask(&format!("{question} [y/N]"))?;
    if matches!(reply.to_ascii_lowercase().as_str(), "y" | "yes") {
        Ok(())
    } else {
        Err(Failure::other("nothing was changed"))
    }
}

/// Asks for a line of text.
pub(crate) fn ask(question: &str) -> Result<String, Failure> {
    show(&format!("{} ", harmless(question)))?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).map_err(Failure::other)?;
    Ok(line.trim().to_owned())
}

/// Asks for a secret, which is not shown while it is typed.
pub(crate) fn ask_secret(question: &str) -> Result<String, Failure> {
    let typed = {
        // Before the question: whoever types at once must not see it either.
        let _silence = SilentTerminal::enter()?;
        show(&format!("{question} "))?;
        read_typed()
    };
    show("\n")?;
    typed
}

/// A secret on standard input: all of it, without the line break at its end.
pub(crate) fn read_secret() -> Result<String, Failure> {
    let mut secret = String::new();
    std::io::stdin().read_to_string(&mut secret).map_err(Failure::other)?;
    Ok(secret.trim_end_matches(['\r', '\n']).to_owned())
}

/// Questions go to standard error, so that they are seen while the output goes elsewhere.
fn show(text: &str) -> Result<(), Failure> {
    let mut stream = std::io::stderr();
    stream.write_all(text.as_bytes()).and_then(|()| stream.flush()).map_err(Failure::other)
}

/// A terminal that neither shows nor interprets what is typed, until this value goes: Ctrl-C would otherwise end the process
/// and leave the terminal silent.
struct SilentTerminal {
    before: Termios,
}

impl SilentTerminal {
    fn enter() -> Result<Self, Failure> {
        let input = std::io::stdin();
        let before = tcgetattr(&input).map_err(Failure::other)?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        silent.special_codes[SpecialCodeIndex::VMIN] = 1;
        silent.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&input, OptionalActions::Drain, &silent).map_err(Failure::other)?;
        Ok(Self { before })
    }
}

impl Drop for SilentTerminal {
    fn drop(&mut self) {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
    }
}

fn read_typed() -> Result<String, Failure> {
    const CTRL_C: u8 = 3;
    const CTRL_D: u8 = 4;
    const CTRL_U: u8 = 21;
    const BACKSPACE: [u8; 2] = [8, 127];
    let (mut typed, mut byte) = (Vec::new(), [0]);
    let mut input = std::io::stdin();
    loop {
        let count = input.read(&mut byte).map_err(Failure::other)?;
        match byte[0] {
            _ if count == 0 => break,
            b'\r' | b'\n' | CTRL_D => break,
            CTRL_C => return Err(Failure::other("interrupted")),
            CTRL_U => typed.clear(),
            erase if BACKSPACE.contains(&erase) => {
                // A character may have several bytes: all that continue it go, then its first one.
                while typed.pop().is_some_and(|byte: u8| byte & 0b1100_0000 == 0b1000_0000) {}
            }
            other => typed.push(other),
        }
    }
    String::from_utf8(typed).map_err(|_| Failure::Usage("the password is not UTF-8".to_owned()))
}
