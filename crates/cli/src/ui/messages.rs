//! Options of all commands for their messages: `--verbose`, `--log-file`, `--color`.

use std::path::PathBuf;

use clap::{ArgAction, Args, ColorChoice, ValueHint};

use crate::ui::export::{NO_STREAM, file};

/// What all commands take.
#[derive(Args, Debug)]
pub(crate) struct MessageArgs {
    /// Also name good files (in a scrub: new and changed ones). -vv also says on standard error how the work is done. --log-file gets both
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = "Messages")]
    pub(crate) verbose: u8,

    /// Append begin, end, messages and problems to this file
    #[arg(long, global = true, value_name = "FILE", help_heading = "Messages", hide_short_help = true,
        value_hint = ValueHint::FilePath, value_parser = file(NO_STREAM))]
    pub(crate) log_file: Option<PathBuf>,

    /// Colour outcomes: auto does on a terminal, unless NO_COLOR is set
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "Messages",
        hide_short_help = true
    )]
    pub(crate) color: ColorChoice,
}
