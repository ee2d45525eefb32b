//! `auspex completions`: what a shell needs to complete commands.

use clap::Args;
use clap_complete::Shell;

use crate::failure::Failure;
use crate::output::Output;

/// Prints completions.
#[derive(Args)]
#[command(after_help = "Examples:
  auspex completions bash > auspex.bash
  auspex completions zsh > _auspex
  auspex completions fish > auspex.fish")]
pub struct Arguments {
    /// The shell.
    #[arg(value_parser = ["bash", "zsh", "fish"])]
    shell: String,
}

impl Arguments {
    pub(crate) fn run(&self, mut program: clap::Command) -> Result<(), Failure> {
        let shell: Shell = self.shell.parse().map_err(Failure::Usage)?;
        let name = program.get_name().to_owned();
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut program, name, &mut text);
        Output::piece(&text)
    }
}
