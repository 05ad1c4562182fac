//! Every command that an alarm names mends what the alarm is about: it is taken from what was printed, run by a shell,
//! and the next look finds nothing.

use crate::common;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Ended, VERISUM, change_and_restore_time, flip};
use tempfile::TempDir;
use verisum_testkit::{FsKind, Mount, require_tool};

/// A tree, a mirror of it, and names that a shell would take for something else.
struct Place {
    _folder: TempDir,
    path: PathBuf,
}

const NAME: &str = "it's $HOME & \"more\".txt";

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let path = folder.path().canonicalize().unwrap();
        for tree in ["my tree", "mirror"] {
            fs::create_dir_all(path.join(tree).join("a b")).unwrap();
            fs::write(path.join(tree).join("a b").join(NAME), "good content").unwrap();
        }
        fs::write(path.join("my tree/other"), "other content").unwrap();
        Place { _folder: folder, path }
    }

    fn bad(&self) -> PathBuf {
        self.path.join("my tree/a b").join(NAME)
    }

    fn damage(&self) {
        change_and_restore_time(&self.bad(), "baad content");
    }

    fn sh(&self, line: &str) -> Ended {
        let programs = Path::new(VERISUM).parent().unwrap().to_path_buf();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::iter::once(programs).chain(std::env::split_paths(&path));
        let mut shell = Command::new("bash");
        shell.arg("-c").arg(line).current_dir(&self.path).env("HOME", &self.path);
        shell.env("PATH", std::env::join_paths(path).unwrap()).env("VERISUM_CONFIG", "");
        Ended::of(shell.env_remove("XDG_STATE_HOME").output().unwrap())
    }

    /// Runs the command that a look at bad data names, and looks again.
    fn mends(&self, look: &str) {
        self.damage();
        let found = self.sh(look);
        assert_eq!(found.code, Some(1), "{look}: {}", found.stderr);
        let line = command_in(&format!("{}{}", found.stderr, found.out()));
        self.run_remedy(&line.replace("PLACE", "mirror"));
        let again = self.sh(look);
        assert_eq!(again.code, Some(0), "{look} after {line}: {}{}", again.stderr, again.out());
        assert_eq!(fs::read(self.bad()).unwrap(), b"good content", "{line}");
    }

    fn run_remedy(&self, line: &str) {
        let ended = self.sh(line);
        assert_eq!(ended.code, Some(0), "{line}: {}{}", ended.stderr, ended.out());
    }
}

/// The command that was named.
fn command_in(said: &str) -> String {
    let after = ["mend it: verisum", "mend it from a copy: verisum"].map(|start| said.split_once(start));
    let (_, command) = after.into_iter().flatten().next().unwrap_or_else(|| panic!("{said}"));
    format!("verisum{}", command.split(['\n', ';']).next().unwrap())
}

#[test]
fn what_a_scrub_names_mends_from_the_catalogue() {
    let place = Place::new();
    assert_eq!(place.sh("verisum scrub 'my tree' mirror").code, Some(0));
    place.mends("verisum scrub 'my tree'");
    place.mends("verisum scrub 'my tree' --catalog .local/state/verisum/catalog.db");
}

#[test]
fn a_copy_that_a_repair_found_bad_is_called_good_no_more() {
    let place = Place::new();
    assert_eq!(place.sh("verisum scrub 'my tree' mirror").code, Some(0));
    place.damage();
    let copy = place.path.join("mirror/a b").join(NAME);
    change_and_restore_time(&copy, "baad, too ..");
    let found = place.sh("verisum scrub 'my tree'");
    assert!(found.stderr.contains("a good copy is "), "{}", found.stderr);
    let command = command_in(&found.stderr);
    let foretold = place.sh(&format!("{command} --dry-run"));
    assert!(place.sh("verisum scrub 'my tree'").stderr.contains("a good copy is "), "{}", foretold.out());
    let tried = place.sh(&command);
    assert_eq!(tried.code, Some(1), "{}", tried.stderr);
    assert!(tried.out().contains("different content"), "{}", tried.out());
    let again = place.sh("verisum scrub 'my tree'");
    assert!(!again.stderr.contains("a good copy is "), "{}", again.stderr);
    let bad = place.sh("verisum catalog list --bad");
    assert!(bad.out().contains("mirror/a b/"), "{}", bad.out());
    // Its own scrub says so, too, and takes it for good again once it is.
    let own = place.sh("verisum scrub mirror");
    assert_eq!(own.code, Some(1), "{}", own.stderr);
    change_and_restore_time(&copy, "good content");
    assert_eq!(place.sh("verisum scrub mirror").code, Some(0));
    place.run_remedy(&command);
}

#[test]
fn what_a_scrub_names_mends_from_a_place_or_parity() {
    let place = Place::new();
    assert_eq!(place.sh("verisum scrub 'my tree'").code, Some(0));
    place.mends("verisum scrub 'my tree'");
    assert_eq!(place.sh("verisum parity create 'my tree'").code, Some(0));
    place.mends("verisum scrub 'my tree'");
    place.mends("verisum parity verify 'my tree'");
}

#[test]
fn json_has_the_command_that_mends_a_tree_of_which_no_copy_is_known() {
    let place = Place::new();
    assert_eq!(place.sh("verisum scrub 'my tree'").code, Some(0));
    place.damage();
    let scrub = place.sh("verisum scrub --json 'my tree'");
    let lines = scrub.out().lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let repair = lines.map(|line| line["repair"].clone()).find(|repair| !repair.is_null()).unwrap();
    assert_eq!(repair["mendable"], 0);
    place.run_remedy(&repair["command"].as_str().unwrap().replace("PLACE", "mirror"));
    assert_eq!(fs::read(place.bad()).unwrap(), b"good content");
}

/// Two lists name each of its files, by two digests: the one that the catalogue has finds the good copy.
#[test]
fn a_bad_file_of_a_bag_is_told_once_and_mended_from_where_the_catalogue_knows_it() {
    let place = Place::new();
    assert_eq!(place.sh("verisum scrub mirror").code, Some(0));
    assert_eq!(place.sh("verisum bag create -a sha256,md5 'my tree'").code, Some(0));
    let bad = place.path.join("my tree/data/a b").join(NAME);
    change_and_restore_time(&bad, "baad content");
    let found = place.sh("verisum check 'my tree'");
    assert_eq!(found.code, Some(1), "{}", found.stderr);
    assert_eq!(found.stderr.matches(": failed").count(), 1, "{}", found.stderr);
    assert!(found.stderr.contains("a good copy is "), "{}", found.stderr);
    let json = place.sh("verisum check --json 'my tree'");
    assert_eq!(json.out().matches(r#""type":"alarm""#).count(), 1, "{}", json.out());
    place.run_remedy(&command_in(&found.stderr));
    assert_eq!(fs::read(&bad).unwrap(), b"good content");
    assert_eq!(place.sh("verisum check --quiet 'my tree'").code, Some(0));
    // Those beyond the first that are told in full are counted once, too.
    for number in 0..15 {
        fs::write(place.path.join(format!("mirror/{number}")), format!("good {number}")).unwrap();
    }
    assert_eq!(place.sh("verisum bag create -a sha256,md5 mirror").code, Some(0));
    for number in 0..15 {
        fs::write(place.path.join(format!("mirror/data/{number}")), format!("baad {number}")).unwrap();
    }
    let found = place.sh("verisum check mirror");
    assert!(found.stderr.contains("... and 5 more\n"), "{}", found.stderr);
}

/// Missing files are mended as bad ones are, and stand behind them where there are many.
#[test]
fn a_missing_file_of_a_list_or_a_bag_is_mended_from_where_the_catalogue_knows_it() {
    let place = Place::new();
    assert_eq!(place.sh("verisum scrub mirror").code, Some(0));
    let list = "cd 'my tree' && find . -type f -print0 | xargs -0 sha256sum > ../SUMS";
    assert_eq!(place.sh(list).code, Some(0));
    let missing_is_mended = |look: &str, file: &Path| {
        fs::remove_file(file).unwrap();
        let found = place.sh(look);
        assert_eq!(found.code, Some(3), "{}", found.stderr);
        assert!(found.stderr.contains(": missing\n"), "{}", found.stderr);
        let json = place.sh(&look.replace("check", "check --json"));
        let alarm = json.out().lines().find(|line| line.contains(r#""type":"alarm""#)).unwrap().to_string();
        let alarm: serde_json::Value = serde_json::from_str(&alarm).unwrap();
        assert_eq!((&alarm["outcome"], alarm["mend"].is_string()), (&"missing".into(), true), "{alarm}");
        place.run_remedy(&command_in(&found.stderr));
        assert_eq!(fs::read(file).unwrap(), b"good content");
        assert_eq!(place.sh(look).code, Some(0));
    };
    missing_is_mended("verisum check -C 'my tree' SUMS", &place.bad());
    fs::remove_file(place.path.join("my tree/other")).unwrap();
    let unknown = place.sh("verisum check -C 'my tree' SUMS");
    assert!(unknown.stderr.contains("  no copy is known\n"), "{}", unknown.stderr);
    let bag = "verisum bag create -a sha256 'my tree'";
    assert_eq!(place.sh(bag).code, Some(0));
    missing_is_mended("verisum check 'my tree'", &place.path.join("my tree/data/a b").join(NAME));
}

/// No catalogue knows the files: the list itself names one with the content.
#[test]
fn a_bad_file_of_a_list_is_mended_by_another_that_the_list_names() {
    let place = Place::new();
    fs::copy(place.bad(), place.path.join("my tree/the same")).unwrap();
    assert_eq!(place.sh("cd 'my tree' && sha256sum */* the* > ../SUMS").code, Some(0));
    let look = "verisum check -C 'my tree' SUMS";
    place.mends(look);
    fs::remove_file(place.bad()).unwrap();
    let json = place.sh(&look.replace("check", "check --json"));
    let alarm = json.out().lines().find(|line| line.contains(r#""type":"alarm""#)).unwrap().to_string();
    let alarm: serde_json::Value = serde_json::from_str(&alarm).unwrap();
    assert!(alarm["copy"]["path"].as_str().unwrap().ends_with("my tree/the same"), "{alarm}");
    place.run_remedy(alarm["mend"].as_str().unwrap_or_else(|| panic!("{alarm}")));
    assert_eq!(fs::read(place.bad()).unwrap(), b"good content");
    // Nothing else is a copy.
    fs::remove_file(place.path.join("my tree/the same")).unwrap();
    place.damage();
    let left = place.sh("verisum repair --sums SUMS --keep-bad kept 'my tree'");
    assert_eq!(left.code, Some(1), "{}{}", left.out(), left.stderr);
}

/// What the repair of a directory does not take from its list it is told of, or no command is.
#[test]
fn a_copy_that_a_list_names_outside_its_directory_is_taken_from_there() {
    let place = Place::new();
    let bad = place.path.join("my tree/other");
    for copy in ["mirror/other", "mirror/the same"] {
        fs::write(place.path.join(copy), "other content").unwrap();
    }
    let whole = place.path.join("mirror/other");
    let below = place.path.join("my tree/the same");
    for (copy, is_mended) in [
        ("../mirror/other", true),
        (whole.to_str().unwrap(), true),
        ("../mirror/the same", false),
        (below.to_str().unwrap(), true),
    ] {
        if copy.ends_with("my tree/the same") {
            fs::write(&below, "other content").unwrap();
        }
        assert_eq!(place.sh(&format!("cd 'my tree' && sha256sum other '{copy}' > SUMS")).code, Some(0));
        change_and_restore_time(&bad, "OTHER CONTENT");
        let found = place.sh("cd 'my tree' && verisum check SUMS");
        assert!(found.stderr.contains("  a good copy is "), "{}", found.stderr);
        assert_eq!(found.stderr.contains("mend it"), is_mended, "{copy}: {}", found.stderr);
        if is_mended {
            // It names the line that is not of the directory, and ends with 3.
            let mended = place.sh(&command_in(&found.stderr));
            assert!(matches!(mended.code, Some(0 | 3)), "{copy}: {}", mended.stderr);
            assert_eq!(fs::read(&bad).unwrap(), b"other content", "{copy}");
        } else {
            fs::write(&bad, "other content").unwrap();
        }
    }
}

#[test]
fn a_list_of_whole_paths_is_mended_from_the_directory_of_all_of_them() {
    let place = Place::new();
    std::os::unix::fs::symlink("my tree", place.path.join("link")).unwrap();
    for tree in ["my tree", "link"] {
        assert_eq!(place.sh(&format!("verisum sum -r \"$PWD/{tree}/\" > list")).code, Some(0));
        place.mends("verisum check list");
    }
    // A repair would take the others for names below that directory.
    assert_eq!(place.sh("sha256sum mirror/*/* >> list").code, Some(0));
    place.damage();
    let found = place.sh("verisum check list");
    assert!(found.stderr.contains(": failed\n") && !found.stderr.contains("mend it"), "{}", found.stderr);
}

/// A repair by such a list would take back what somebody wanted to have.
#[test]
fn a_list_that_contradicts_itself_mends_nothing() {
    let place = Place::new();
    let names = "cd 'my tree' && md5sum other > ../old && sha256sum other > ../wrong";
    assert_eq!(place.sh(names).code, Some(0));
    fs::write(place.path.join("my tree/other"), "newer content").unwrap();
    fs::write(place.path.join("mirror/other"), "other content").unwrap();
    let number = "0".repeat(64);
    for line in [
        "cd 'my tree' && (cat ../old && sha256sum other) > ../list",
        "cd 'my tree' && (sha256sum \"$PWD/other\" && cat ../old) > ../list",
        &format!("(cat wrong && echo '{number}  other') > list"),
    ] {
        assert_eq!(place.sh(line).code, Some(0), "{line}");
        let found = place.sh("verisum check -C 'my tree' list");
        assert_eq!(found.code, Some(1), "{line}: {}", found.stderr);
        assert!(found.stderr.contains("another line has another digest"), "{line}: {}", found.stderr);
        assert!(!found.stderr.contains("mend it"), "{line}: {}", found.stderr);
    }
}

/// The command is for the whole list: it would replace what another list calls good, what is left out, or what should be
/// in a directory that is not there.
#[test]
fn a_command_repairs_no_more_than_what_was_found() {
    let place = Place::new();
    fs::copy(place.path.join("my tree/other"), place.path.join("mirror/other")).unwrap();
    assert_eq!(place.sh("verisum scrub mirror").code, Some(0));
    assert_eq!(place.sh("cd 'my tree' && sha256sum other */* > ../old").code, Some(0));
    fs::write(place.path.join("my tree/other"), "newer content").unwrap();
    assert_eq!(place.sh("cd 'my tree' && sha256sum other > ../new").code, Some(0));
    // Somebody changed the list, in a way that does not matter.
    assert_eq!(place.sh("sha256sum $PWD/old > of-lists && echo >> old").code, Some(0));
    place.damage();
    let by_old = format!("--sums '{}/old'", place.path.display());
    assert!(place.sh("verisum check -C 'my tree' old").stderr.contains(&by_old));
    for (lists, why) in [
        ("-C 'my tree' old new", "other lines contradict its list"),
        ("-C 'my tree' --exclude other old", "--exclude"),
        ("-C 'my tree' old gone", "a list could not be read"),
        ("-C 'my tree' of-lists old", "its list is bad itself"),
    ] {
        let found = place.sh(&format!("verisum check {lists}"));
        assert_eq!(found.code, Some(1), "{lists}: {}", found.stderr);
        let line = found.stderr.lines().find(|line| line.contains("no command repairs it: "));
        assert!(line.is_some_and(|line| line.contains(why)), "{lists}: {}", found.stderr);
        assert!(!found.stderr.contains(&by_old), "{lists}: {}", found.stderr);
    }
    // What was ignored stays so.
    fs::remove_file(place.path.join("my tree/other")).unwrap();
    let found = place.sh("verisum check -C 'my tree' --ignore-missing old");
    let mended = place.sh(&command_in(&found.stderr));
    assert!(mended.out().contains("1 file repaired"), "{}{}", mended.out(), mended.stderr);
    assert!(!place.path.join("my tree/other").exists(), "it was not asked for");
}

#[test]
fn what_no_repair_replaces_has_no_command() {
    let place = Place::new();
    assert_eq!(place.sh("verisum scrub mirror && cd 'my tree' && sha256sum */* > ../list").code, Some(0));
    place.damage();
    for (change, why) in [
        ("mv 'my tree/a b' real && ln -s ../real 'my tree/a b'", "a link is in the place of its directory"),
        ("rm 'my tree/a b' && echo > 'my tree/a b'", "something else is in the place of its directory"),
        ("rm 'my tree/a b' && mkdir 'my tree/a b' && mkdir \"$0\"", "something else is in its place"),
    ] {
        let change =
            change.replace("$0", &format!("my tree/a b/{}", NAME.replace('"', "\\\"").replace('$', "\\$")));
        assert_eq!(place.sh(&change).code, Some(0), "{change}");
        let found = place.sh("verisum check -C 'my tree' list");
        assert!(
            found.stderr.contains(&format!("no command repairs it: {why}")),
            "{change}: {}",
            found.stderr
        );
        assert!(!found.stderr.contains("mend it"), "{change}: {}", found.stderr);
    }
}

#[test]
fn an_empty_file_of_a_list_is_mended_without_a_copy() {
    let place = Place::new();
    assert_eq!(place.sh("cd mirror && : > empty && sha256sum empty > ../list").code, Some(0));
    fs::write(place.path.join("mirror/empty"), "full").unwrap();
    let found = place.sh("verisum check -C mirror list");
    assert!(!found.stderr.contains("PLACE"), "{}", found.stderr);
    place.run_remedy(&command_in(&found.stderr));
    assert_eq!(fs::read(place.path.join("mirror/empty")).unwrap(), b"");
}

/// The command repairs all that is bad in the directory: so it has all copies that are known.
#[test]
fn files_of_one_list_have_one_command() {
    let place = Place::new();
    for (number, from) in ["one", "two"].into_iter().enumerate() {
        fs::create_dir(place.path.join(from)).unwrap();
        for folder in ["my tree", from] {
            fs::write(place.path.join(folder).join(format!("f{number}")), format!("content {number}"))
                .unwrap();
        }
    }
    fs::write(place.path.join("my tree/a"), "a content").unwrap();
    fs::write(place.path.join("my tree/copy of a"), "a content").unwrap();
    fs::write(place.path.join("my tree/f00"), "no copy").unwrap();
    assert_eq!(place.sh("verisum scrub one two").code, Some(0));
    assert_eq!(place.sh("cd 'my tree' && sha256sum a 'copy of a' f* > ../SUMS").code, Some(0));
    for name in ["a", "f0", "f00", "f1"] {
        fs::write(place.path.join("my tree").join(name), "bad").unwrap();
    }
    let look = "verisum check -C 'my tree' SUMS";
    let found = place.sh(look);
    assert_eq!(found.stderr.matches("  the command below mends it\n").count(), 2, "{}", found.stderr);
    assert_eq!(found.stderr.matches("  mend it: verisum repair ").count(), 1, "{}", found.stderr);
    assert_eq!(found.stderr.matches("--from PLACE\n").count(), 1, "{}", found.stderr);
    let mended = place.sh(&command_in(&found.stderr));
    assert!(mended.out().contains("3 files repaired"), "{}{}", mended.out(), mended.stderr);
    let again = place.sh(look);
    assert_eq!(again.stderr.matches(": failed\n").count(), 1, "{}", again.stderr);
    // A stream leads to another file when the command is run.
    let stream = place.sh("cd 'my tree' && verisum check /dev/stdin < ../SUMS");
    assert!(stream.stderr.contains("f00: failed\n"), "{}", stream.stderr);
    assert!(!stream.stderr.contains("mend it"), "{}", stream.stderr);
}

#[test]
fn many_missing_files_of_a_list_do_not_hide_a_bad_one() {
    let place = Place::new();
    let lines: String = (0..15).map(|number| format!("{:032x}  gone {number}\n", number)).collect();
    fs::write(place.path.join("SUMS"), format!("{lines}{:032x}  my tree/other\n", 0)).unwrap();
    let found = place.sh("verisum check SUMS");
    assert!(found.stderr.contains("my tree/other: failed\n"), "{}", found.stderr);
    assert_eq!(found.stderr.matches(": missing\n").count(), 9, "{}", found.stderr);
    assert!(found.stderr.contains("... and 6 more\n"), "{}", found.stderr);
}

#[test]
fn a_bad_image_of_a_list_is_mended_by_the_map_beside_it() {
    let place = Place::new();
    let image = place.path.join("vm.raw");
    let good: Vec<u8> = (0..1_u32 << 17).flat_map(u32::to_le_bytes).collect();
    fs::write(&image, &good).unwrap();
    fs::copy(&image, place.path.join("copy.raw")).unwrap();
    let made = "verisum image map -o vm.raw.map vm.raw && verisum image sum vm.raw copy.raw > SUMS";
    assert_eq!(place.sh(made).code, Some(0));
    change_and_restore_time(&image, &[&[8; 1000], &good[1000..]].concat());
    let json = place.sh("verisum check --json SUMS");
    let alarm = json.out().lines().find(|line| line.contains(r#""type":"alarm""#)).unwrap().to_string();
    let alarm: serde_json::Value = serde_json::from_str(&alarm).unwrap();
    assert_eq!(alarm["algorithm"], "BLKHASH-SHA256-64K", "{alarm}");
    assert!(alarm["digest"].is_string() && alarm["mend"].is_string(), "{alarm}");
    place.run_remedy(&command_in(&place.sh("verisum check SUMS").stderr));
    assert_eq!(fs::read(&image).unwrap(), good);
}

#[test]
fn what_monitoring_names_mends() {
    let place = Place::new();
    assert_eq!(place.sh("verisum scrub 'my tree' mirror").code, Some(0));
    for (look, is_json) in
        [("verisum catalog status --nagios", false), ("verisum catalog list --bad --json", true)]
    {
        place.damage();
        assert_eq!(place.sh("verisum scrub 'my tree'").code, Some(1));
        let found = place.sh(look);
        assert!(matches!(found.code, Some(1 | 2)), "{look}: {}", found.stderr);
        let line = match is_json {
            false => command_in(found.out()),
            true => {
                let file: serde_json::Value =
                    serde_json::from_str(found.out().lines().next().unwrap()).unwrap();
                file["mend"].as_str().unwrap_or_else(|| panic!("{file}")).to_string()
            }
        };
        place.run_remedy(&line);
        assert_eq!(place.sh(look).code, Some(0), "{look}");
        assert_eq!(fs::read(place.bad()).unwrap(), b"good content", "{line}");
    }
}

/// Nagios ends a line at `|`, and Debian's `sh` knows no `$'…'`.
#[test]
fn commands_work_in_every_shell_whatever_the_names_are() {
    // It knows no more than POSIX has.
    let Some(dash) = require_tool("dash") else { return };
    let place = Place::new();
    for tree in ["my tree", "mirror"] {
        for (name, content) in [("a|b", "first of them"), ("n\nl|\u{1}", "second one")] {
            fs::write(place.path.join(tree).join(name), content).unwrap();
        }
    }
    assert_eq!(place.sh("verisum scrub --catalog c.db 'my tree' mirror").code, Some(0));
    for (name, content) in [("a|b", "first of them"), ("n\nl|\u{1}", "second one")] {
        let bad = place.path.join("my tree").join(name);
        change_and_restore_time(&bad, &content.to_uppercase());
        let ended = place.sh("verisum scrub --catalog c.db 'my tree' --nagios");
        assert_eq!(ended.code, Some(2), "{}", ended.out());
        let said: Vec<&str> = ended.out().lines().skip(1).collect();
        assert!(said.len() == 1 && !said[0].contains('|'), "{said:?}");
        // In another directory too: the catalogue is named whole.
        let line = command_in(said[0]);
        fs::create_dir_all(place.path.join("else")).unwrap();
        fs::write(place.path.join("line"), format!("cd else\n{line}\n")).unwrap();
        let ended = place.sh(&format!("{} line", dash.display()));
        assert_eq!(ended.code, Some(0), "{line}: {}{}", ended.stderr, ended.out());
        assert_eq!(fs::read_to_string(&bad).unwrap(), content, "{line}");
    }
}

/// The whole tree's command has what a suspicious file needs, and a mass of changes can be taken back.
#[test]
fn what_is_said_of_a_tree_mends_all_of_it() {
    let place = Place::new();
    assert_eq!(place.sh("verisum scrub 'my tree' mirror").code, Some(0));
    place.damage();
    let ended = place.sh("verisum scrub 'my tree'");
    let (_, after) = ended.stderr.split_once("`verisum repair").unwrap_or_else(|| panic!("{}", ended.stderr));
    let line = format!("verisum repair{}", after.split('`').next().unwrap());
    assert!(line.ends_with("/my tree.bad'"), "{line}");
    place.run_remedy(&line);
    assert_eq!(fs::read(place.bad()).unwrap(), b"good content");

    assert_eq!(place.sh("verisum scrub 'my tree' mirror").code, Some(0));
    fs::write(place.bad(), "by malware").unwrap();
    fs::write(place.path.join("my tree/other"), "by malware").unwrap();
    fs::write(place.path.join("mirror/other"), "other content").unwrap();
    assert_eq!(place.sh("verisum scrub mirror").code, Some(0));
    assert_eq!(place.sh("verisum scrub 'my tree' --alarm-changed 10%").code, Some(1));
    let status = place.sh("verisum catalog status --nagios");
    assert_eq!(status.code, Some(2), "{}", status.out());
    assert!(status.out().contains(", 2 held, held "), "{}", status.out());
    for line in status.out().lines().skip(1) {
        place.run_remedy(&command_in(line));
    }
    assert_eq!(fs::read(place.bad()).unwrap(), b"good content");
    let status = place.sh("verisum catalog status --nagios");
    assert_eq!(status.code, Some(0), "{}", status.out());
}

/// No later run names it: who only reads what Nagios shows has to be told now, or by the catalogue's status.
#[test]
fn nagios_names_what_went_missing_and_what_brings_it_back() {
    let place = Place::new();
    assert_eq!(place.sh("verisum scrub 'my tree' mirror").code, Some(0));
    for look in ["verisum scrub --nagios 'my tree'", "verisum catalog status --nagios --missing fail"] {
        fs::remove_file(place.bad()).unwrap();
        if look.contains("status") {
            assert_eq!(place.sh("verisum scrub 'my tree'").code, Some(0));
            assert_eq!(place.sh("verisum catalog status --missing fail").code, Some(1));
            assert_eq!(place.sh("verisum catalog status --nagios").code, Some(0));
        }
        let ended = place.sh(look);
        assert_eq!(ended.code, Some(if look.contains("status") { 2 } else { 0 }), "{look}: {}", ended.out());
        assert!(ended.out().contains(", 1 missing"), "{look}: {}", ended.out());
        let lines: Vec<&str> = ended.out().lines().skip(1).collect();
        assert!(lines.len() == 1 && lines[0].starts_with("missing "), "{lines:?}");
        place.run_remedy(&command_in(lines[0]));
        assert_eq!(fs::read(place.bad()).unwrap(), b"good content");
        assert_eq!(place.sh(look).code, Some(0), "{look}");
    }
}

#[test]
fn what_lists_and_tags_name_mends() {
    let place = Place::new();
    assert_eq!(place.sh("cd 'my tree' && verisum sum -r . > ../list").code, Some(0));
    place.mends("verisum check -C 'my tree' list");
    assert_eq!(place.sh("verisum tag 'my tree'").code, Some(0));
    place.mends("verisum verify 'my tree'");
    // Where the catalogue knows a copy, it is named.
    assert_eq!(place.sh("verisum scrub mirror").code, Some(0));
    place.mends("verisum verify 'my tree'");
}

#[test]
fn what_tags_name_is_one_command_for_the_tree_that_was_verified() {
    let place = Place::new();
    assert_eq!(place.sh("verisum tag 'my tree' && cp 'my tree/other' mirror").code, Some(0));
    let other = place.path.join("my tree/other");
    place.damage();
    change_and_restore_time(&other, "OTHER content");
    let found = place.sh("verisum verify 'my tree'");
    assert_eq!(found.code, Some(1), "{}", found.stderr);
    assert_eq!(found.stderr.matches("verisum repair").count(), 1, "{}", found.stderr);
    place.run_remedy(&command_in(&found.stderr).replace("PLACE", "mirror"));
    assert_eq!(place.sh("verisum verify 'my tree'").code, Some(0));
    // Parity that is there is named.
    assert_eq!(place.sh("verisum parity create 'my tree'").code, Some(0));
    change_and_restore_time(&other, "OTHER content");
    let found = place.sh("verisum verify 'my tree'");
    assert!(found.stderr.contains("parity may mend it: "), "{}", found.stderr);
    place.run_remedy(&command_in(&found.stderr));
    assert_eq!(place.sh("verisum verify 'my tree'").code, Some(0));
}

#[test]
fn an_empty_file_needs_no_copy_and_its_alarm_says_so() {
    let place = Place::new();
    let empty = place.path.join("my tree/empty");
    fs::write(&empty, "").unwrap();
    assert_eq!(place.sh("verisum scrub --catalog c.db 'my tree'").code, Some(0));
    fs::remove_file(&empty).unwrap();
    let found = place.sh("verisum scrub --catalog c.db --missing fail 'my tree'");
    assert_eq!(found.code, Some(1), "{}", found.stderr);
    assert!(found.stderr.contains("it was empty: no copy is needed\n"), "{}", found.stderr);
    assert!(found.stderr.contains("1 needs no copy, being empty: `verisum repair"), "{}", found.stderr);
    let page = place.sh("verisum report -o page.html c.db");
    assert!(page.out().contains("1 missing file: 1 needs no copy, being empty. The page"), "{}", page.out());
    assert!(
        fs::read_to_string(place.path.join("page.html")).unwrap().contains("none is needed: it was empty")
    );
    let json = place.sh("verisum catalog status --json --catalog c.db");
    assert!(json.out().contains(r#""empty":1"#), "{}", json.out());
    place.run_remedy(&command_in(&found.stderr));
    assert_eq!(fs::read(&empty).unwrap(), b"");
    assert_eq!(place.sh("verisum scrub --catalog c.db --missing fail 'my tree'").code, Some(0));
}

#[test]
fn a_check_asks_the_catalogue_that_is_configured_or_named() {
    let place = Place::new();
    assert_eq!(place.sh("cd 'my tree' && verisum sum -r . > ../list").code, Some(0));
    assert_eq!(place.sh("verisum scrub --catalog c.db mirror").code, Some(0));
    place.damage();
    let good = format!("a good copy is {}/mirror/a b/", place.path.display());
    for look in ["VERISUM_CATALOG=c.db verisum check", "verisum check --catalog c.db"] {
        let found = place.sh(&format!("{look} -C 'my tree' list"));
        assert!(found.code == Some(1) && found.stderr.contains(&good), "{look}: {}", found.stderr);
    }
    assert_eq!(place.sh("verisum check --catalog none.db -C 'my tree' list").code, Some(3));
    place.mends("verisum check --catalog c.db -C 'my tree' list");
}

/// The catalogue knows copies that are gone by now, or changed, and other names of the bad file.
#[test]
fn a_recorded_copy_is_named_while_it_is_there() {
    let place = Place::new();
    assert_eq!(place.sh("cp -al 'my tree' 0; cp -a mirror 1; cp -a mirror z; mv mirror 2").code, Some(0));
    assert_eq!(place.sh("cd 'my tree' && verisum sum -r . > ../list").code, Some(0));
    assert_eq!(place.sh("verisum scrub --quiet 0 1 2 z && rm -r 1/*").code, Some(0));
    fs::write(place.path.join("2/a b").join(NAME), "new_ content").unwrap();
    place.damage();
    let found = place.sh("verisum check -C 'my tree' list");
    let good = format!("a good copy is {}/z/a b/", place.path.display());
    assert!(found.code == Some(1) && found.stderr.contains(&good), "{}", found.stderr);
    place.mends("verisum check -C 'my tree' list");
}

/// No catalogue knows the copy, and the directory of the bad file has another name there.
#[test]
fn a_file_of_a_renamed_directory_is_mended_from_its_old_name() {
    let place = Place::new();
    assert_eq!(place.sh("mv 'mirror/a b' mirror/old && verisum scrub --quiet 'my tree'").code, Some(0));
    for from in ["mirror/old", "mirror/old/*"] {
        place.damage();
        assert_eq!(place.sh("verisum scrub --quiet 'my tree'").code, Some(1));
        place.run_remedy(&format!("verisum repair 'my tree/a b'/* --keep-bad bad --from {from}"));
        assert_eq!(fs::read(place.bad()).unwrap(), b"good content", "{from}");
    }
}

#[test]
fn what_an_image_check_names_mends() {
    let place = Place::new();
    let image: Vec<u8> = (0..1_u32 << 18).flat_map(u32::to_le_bytes).collect();
    for name in ["a disk.img", "mirror.img"] {
        fs::write(place.path.join(name), &image).unwrap();
    }
    assert_eq!(place.sh("verisum image map -o 'a disk.map' 'a disk.img'").code, Some(0));
    let file = fs::File::options().write(true).open(place.path.join("a disk.img")).unwrap();
    file.write_all_at(b"rot", 300_000).unwrap();
    drop(file);
    let look = "verisum image verify --map 'a disk.map' 'a disk.img'";
    let found = place.sh(look);
    assert_eq!(found.code, Some(1), "{}", found.stderr);
    place.run_remedy(&command_in(&found.stderr).replace("PLACE", "mirror.img"));
    assert_eq!(place.sh(look).code, Some(0));
    assert_eq!(fs::read(place.path.join("a disk.img")).unwrap(), image);
}

#[test]
fn what_is_named_mends_what_storage_cannot_read() {
    let place = Place::new();
    let Some(mut mount) = Mount::new(FsKind::Btrfs, 0) else { return };
    for (record, look) in [("tag", "verify"), ("scrub", "scrub")] {
        // What was repaired leaves bytes on the disk.
        let marker = format!("verisum: these bytes are going to rot in spite of a {record}").into_bytes();
        let mut content = vec![7; 100_000];
        content[..marker.len()].copy_from_slice(&marker);
        fs::write(place.path.join("mirror/file"), &content).unwrap();
        fs::write(mount.path().join("file"), &content).unwrap();
        let tree = mount.path().display().to_string();
        assert_eq!(place.sh(&format!("verisum {record} {tree}")).code, Some(0));
        mount.edit_image(|image| flip(image, &marker));
        let look = format!("verisum {look} {tree}");
        let found = place.sh(&look);
        assert_eq!(found.code, Some(3), "{look}: {}", found.stderr);
        place.run_remedy(&command_in(&found.stderr).replace("PLACE", "mirror"));
        let again = place.sh(&look);
        assert_eq!(again.code, Some(0), "{look}: {}{}", again.stderr, again.out());
        assert_eq!(fs::read(mount.path().join("file")).unwrap(), content);
    }
}

/// Its lines of directories have no content that could be compared.
#[test]
fn a_missing_file_of_a_list_of_mtree_is_mended() {
    let place = Place::new();
    assert_eq!(place.sh("cd 'my tree' && verisum sum -r --format mtree . > ../list").code, Some(0));
    fs::remove_file(place.bad()).unwrap();
    let found = place.sh("verisum check -C 'my tree' list");
    assert_eq!(found.code, Some(3), "{}", found.stderr);
    let line = command_in(&found.stderr).replace("PLACE", "mirror");
    place.run_remedy(&line);
    let again = place.sh(&line);
    assert_eq!((again.code, again.stderr.as_str()), (Some(0), ""), "{}", again.out());
    assert_eq!(place.sh("verisum check -C 'my tree' list").code, Some(0));
}

/// It may be a mount point of what is not mounted: nothing makes it anew, to fill the disk above it.
#[test]
fn a_directory_that_is_not_there_is_not_made_anew() {
    let place = Place::new();
    assert_eq!(place.sh("cd mirror && verisum sum -r . > ../list").code, Some(0));
    fs::rename(place.path.join("mirror"), place.path.join("copy")).unwrap();
    let look = "verisum check -C mirror list";
    let json = place.sh(&look.replace("check", "check --json"));
    let alarm = json.out().lines().find(|line| line.contains(r#""type":"alarm""#)).unwrap().to_string();
    let alarm: serde_json::Value = serde_json::from_str(&alarm).unwrap();
    assert!(alarm["mend"].is_null(), "{alarm}");
    let said = place.sh(look).stderr;
    let advice = format!("{} is not there: is it mounted?", place.path.join("mirror").display());
    assert!(said.contains(&advice) && !said.contains("mkdir"), "{said}");
    fs::rename(place.path.join("copy"), place.path.join("mirror")).unwrap();
    assert_eq!(place.sh(look).code, Some(0));
}

/// One command mends the directory, whatever is wrong with its files.
#[test]
fn a_list_with_files_that_storage_cannot_read_says_so_and_is_mended() {
    let place = Place::new();
    let Some(mut mount) = Mount::new(FsKind::Btrfs, 0) else { return };
    let marker = b"verisum: these bytes rot below a list";
    for folder in [mount.path(), place.path.join("mirror")] {
        fs::write(folder.join("unreadable"), marker.repeat(3000)).unwrap();
        fs::write(folder.join("other"), "good content").unwrap();
    }
    let tree = mount.path().display().to_string();
    assert_eq!(place.sh(&format!("cd {tree} && sha256sum unreadable other > \"$HOME/list\"")).code, Some(0));
    mount.edit_image(|image| flip(image, marker));
    change_and_restore_time(&mount.path().join("other"), "baad content");
    let look = format!("verisum check -C {tree} list");
    let found = place.sh(&look);
    assert!(found.stderr.contains("the storage failed: first copy what can be read"), "{}", found.stderr);
    place.run_remedy(&command_in(&found.stderr).replace("PLACE", "mirror"));
    assert_eq!(place.sh(&look).code, Some(0));
}

/// What is bad and stale is told as what is bad.
#[test]
fn a_list_of_stale_files_names_the_copy_too() {
    let place = Place::new();
    assert_eq!(place.sh("verisum scrub 'my tree' mirror").code, Some(0));
    place.damage();
    assert_eq!(place.sh("verisum scrub 'my tree'").code, Some(1));
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let list = |options: &str| place.sh(&format!("verisum catalog list {options} --tree 'my tree/a b'"));
    for format in ["", "--json", "--csv"] {
        assert_eq!(list(&format!("--stale 1s {format}")).out(), list(&format!("--bad {format}")).out());
    }
    assert!(list("--stale 1s").out().contains("a good copy is "));
}

/// A missing file that fails the run is told as bad ones are.
#[test]
fn a_missing_file_has_the_alarm_of_a_bad_one_where_something_brings_it_back() {
    let place = Place::new();
    assert_eq!(place.sh("verisum scrub 'my tree' mirror").code, Some(0));
    let scrub = |options: &str| place.sh(&format!("verisum scrub {options} 'my tree'"));
    for options in ["", "--quiet", "--json", "--prometheus metrics"] {
        fs::remove_file(place.bad()).unwrap();
        let told = scrub(options);
        assert_eq!(told.code, Some(0), "{}", told.stderr);
        if options == "--json" {
            let line = told.out().lines().find(|line| line.contains(r#""type":"alarm""#)).unwrap();
            assert!(
                line.contains(r#""outcome":"missing""#) && line.contains(r#""mend":"verisum repair"#),
                "{line}"
            );
        } else {
            let told = &told.stderr;
            assert!(told.contains(": missing since ") && told.contains("a good copy is "), "{told}");
        }
        if options.starts_with("--prometheus") {
            let figures = fs::read_to_string(place.path.join("metrics")).unwrap();
            let row = |from: &str| {
                let end = format!(",from=\"{from}\"}} ");
                let mut lines =
                    figures.lines().filter(|line| line.starts_with("verisum_scrub_repairable_files{"));
                lines.find_map(|line| line.split_once(&end)?.1.parse::<u64>().ok())
            };
            assert_eq!(
                ["copy", "parity", "nothing", "unknown"].map(row),
                [Some(1), Some(0), Some(0), Some(0)]
            );
        }
        // It is news once.
        assert!(!scrub("").stderr.contains("missing since"));
        place.run_remedy("verisum repair 'my tree'");
        assert_eq!(scrub("").code, Some(0));
    }
}

#[test]
fn a_missing_file_that_fails_a_run_has_its_alarm() {
    let place = Place::new();
    assert_eq!(place.sh("verisum scrub 'my tree' mirror").code, Some(0));
    fs::remove_file(place.bad()).unwrap();
    let scrub = |options: &str| place.sh(&format!("verisum scrub --missing fail {options} 'my tree'"));
    // The first run and each that follows.
    for _ in 0..2 {
        let told = scrub("");
        assert!(told.stderr.contains(": missing since ") && told.stderr.contains("a good copy is "));
        assert_eq!(scrub("--json").out().matches(r#""type":"alarm""#).count(), 1);
        let nagios = scrub("--nagios");
        assert_eq!(
            (nagios.code, nagios.out().matches("mend it: ").count()),
            (Some(2), 1),
            "{}",
            nagios.out()
        );
    }
    place.run_remedy(&command_in(&scrub("").stderr));
    assert_eq!(scrub("").code, Some(0));
}

#[test]
fn what_a_check_names_takes_the_list_as_the_check_did() {
    let place = Place::new();
    // Files so large are not hashed to find out what a number is of.
    place.sh("cd 'my tree' && head -c 9M /dev/zero >a && cp a b && verisum sum -a blake3 a b >../L").clean();
    change_and_restore_time(&place.path.join("my tree/a"), "bad");
    let look = "verisum check -a blake3 -C 'my tree' L";
    let command = command_in(&place.sh(look).stderr);
    assert!(command.contains(" -a blake3 "), "{command}");
    place.run_remedy(&command);
    assert_eq!(place.sh(look).code, Some(0));
    // What was read from standard input has no name.
    change_and_restore_time(&place.path.join("my tree/a"), "bad");
    let said = place.sh("cp L 'my tree/-' && cd 'my tree' && verisum check -a blake3 - <../L").stderr;
    assert!(said.contains("/b") && !said.contains("--sums"), "{said}");
}

/// A CRC does not tell how many zeros come first or last where its register is zero.
#[test]
fn a_copy_has_all_that_the_list_says() {
    let place = Place::new();
    for digests in ["crc32", "crc32,sha256"] {
        let files = r"cd 'my tree'; printf '\377\377\377\377' >b; printf '\0\0\0' | cat b - >a";
        place.sh(&format!("{files}; verisum sum --json -a {digests} a b >../L")).clean();
        assert!(fs::read_to_string(place.path.join("L")).unwrap().matches("ffffffff").count() == 2);
        change_and_restore_time(&place.path.join("my tree/a"), "ba");
        let said = place.sh("verisum check -C 'my tree' L");
        assert_eq!(said.code, Some(1));
        assert!(!said.stderr.contains("good copy"), "{}", said.stderr);
    }
    // A file is no copy of itself, though one line finds it good.
    let zeros = "0".repeat(64);
    let make = format!(
        r"cd 'my tree' && md5sum b >../M
        printf '%s\n' '%%%% HASHDEEP-1.0' '%%%% size,md5,sha256,filename' >../S
        echo 4,$(md5sum <b | cut -d ' ' -f 1),{zeros},b >>../S"
    );
    place.sh(&make).clean();
    let said = place.sh("verisum check -C 'my tree' M S").stderr;
    assert!(said.contains("b: failed") && !said.contains("good copy"), "{said}");
}
