//! Trees on hosts with PowerShell.
//!
//! No PowerShell can be had here: a stand-in takes its place behind a real sshd, and speaks as the script
//! that is sent to it says. What is sent is held by the tests of src/remote/windows.rs. None of it was ever
//! run against a real Windows.

use crate::common;

use std::fs;
use std::io::Write;
use std::process::Stdio;

use common::Ended;
use common::sshd::{Sshd, forced};
use verisum_testkit::require_tool;

/// Takes the script as PowerShell would, and answers as the script would, with the lines of Windows.
const STAND_IN: &str = r##"
use strict; use MIME::Base64; use Digest::SHA; use Encode;
binmode STDIN; binmode STDOUT; $| = 1;
my ($lie, $command) = @ARGV;
$command =~ /-InputFormat None .*-EncodedCommand (\S+)$/ or exit 9;
decode("UTF-16LE", decode_base64($1)) =~ /Invoke-Expression/ or exit 9;
sub line { my $l = <STDIN>; exit 0 unless defined $l; chomp $l; return $l }
sub field { return decode_base64(line()) }
sub put { print encode_base64(join("\t", @_), ""), "\r\n" }
print "Microsoft greets\r\n\@verisum\@\r\n"; print STDERR "\@verisum\@\r\n";
my $tool;
while ((my $l = line()) ne "#end") { $tool = $1 if $l =~ /^\$tool = '(\w+)'$/ }
sub plain { my $d = Digest::SHA->new(256); $d->add($_[0]); return $tool eq $lie ? "0" x 64 : $d->hexdigest }
sub shown {
  my $h = plain($_[0]);
  return $h if $tool ne "certutil" || $_[0] eq "";
  $h =~ s/(..)(?=.)/$1 /g;
  return "SHA256 hash of file C:\\x:|$h|CertUtil: -hashfile command completed successfully.";
}
sub one {
  my $p = shift;
  return ("missing", "") unless -e $p;
  return ("directory", "") if -d $p;
  open(my $f, "<", $p) or return ("denied", "Access is denied.");
  local $/; my $c = <$f>;
  return ("ok", length $c, (stat $p)[9] . ".5000000", shown($c), "-");
}
sub walk {
  my $d = shift;
  opendir(my $h, $d) or return put("e", "denied", "Access is denied.", $d);
  for my $n (sort grep { !/^\.\.?$/ } readdir $h) {
    if (-d "$d/$n") { walk("$d/$n") } else { my ($w, @r) = one("$d/$n"); put($w eq "ok" ? "f" : "e", $w eq "ok" ? @r : ($w, @r), "$d/$n") }
  }
}
put("verisum-remote 1");
while (1) {
  my $r = field(); my $alg = field(); $alg eq "SHA256" or exit 8;
  if ($r eq "test") {
    put("c", Digest::SHA::sha256_hex("x"), do { my $h = plain("x"); "x|$h|y" }) if $tool eq "certutil";
    put("t", map { plain($_) } "abc", join("", map { chr } 0 .. 255), "");
  } elsif ($r eq "tree") { my $p = field(); field(); walk($p) }
  elsif ($r eq "names") {
    my $k = 0;
    while ((my $n = field()) ne ".") { my ($w, @r) = one(substr $n, 1); put($w eq "ok" ? ("h", $k, @r) : ("x", $k, $w, @r)); $k++ }
  } else { exit 7 }
  put("end");
}
"##;

/// A host that knows nothing but PowerShell, in which one of the ways may lie.
fn windows(lie: &str) -> Option<Sshd> {
    let perl = require_tool("perl")?;
    let server = forced("")?;
    fs::write(server.path("stand-in.pl"), STAND_IN).unwrap();
    server.force(&format!(
        "case $SSH_ORIGINAL_COMMAND in\n\
         powershell*) exec {} {}/stand-in.pl '{lie}' \"$SSH_ORIGINAL_COMMAND\" ;;\n\
         *) printf \"'exec' is not recognized as an internal or external command,\\r\\noperable program or batch file.\\r\\n\" >&2; exit 1 ;;\n\
         esac\n",
        perl.display(),
        server.path("").display()
    ));
    let folder = server.path("files");
    fs::create_dir_all(folder.join("sub")).unwrap();
    for (name, text) in [("empty", ""), ("one $x `y`", "1"), ("sub/two 'a' & b", "22")] {
        fs::write(folder.join(name), text).unwrap();
    }
    Some(server)
}

/// The digests by sha256sum.
fn expected(server: &Sshd) -> String {
    let mut lines = String::new();
    for name in ["empty", "one $x `y`", "sub/two 'a' & b"] {
        let text = fs::read(server.path("files").join(name)).unwrap();
        let digest = verisum::digest::Digest::find("sha256").unwrap().hash(&text).unwrap();
        lines.push_str(&format!("{digest}  {name}\n"));
    }
    lines
}

#[test]
fn hosts_with_powershell_are_understood() {
    let Some(server) = windows("") else { return };
    let place = format!("web1:{}", server.path("files").display());
    for (more, way) in
        [(&[][..], "powershell (Get-FileHash)"), (&["--way", "certutil"], "certutil (certutil -hashfile)")]
    {
        let ended = server.run(server.remote("sum").arg("--relative").args(more).arg(&place));
        assert_eq!((ended.code, ended.out()), (Some(0), expected(&server).as_str()), "{}", ended.stderr);
        assert_eq!(ended.stderr, format!("verisum: web1: sha256 by {way}\n"));
    }
    let mut command = server.remote("sum");
    command.args(["--relative", "--files0-from=-"]).arg(&place).stdin(Stdio::piped());
    let mut child = common::start(&mut command);
    child.stdin.take().unwrap().write_all(b"empty\0none\0sub\0").unwrap();
    let ended = Ended::of(child.wait_with_output().unwrap());
    let first = expected(&server).lines().next().unwrap().to_string() + "\n";
    assert_eq!((ended.code, ended.out()), (Some(3), first.as_str()), "{}", ended.stderr);
    assert!(ended.stderr.contains("none: No such file or directory"), "{}", ended.stderr);
    assert!(ended.stderr.contains("sub: Is a directory"), "{}", ended.stderr);
}

#[test]
fn a_way_there_that_lies_is_not_used() {
    let Some(server) = windows("powershell") else { return };
    let place = format!("web1:{}", server.path("files").display());
    let ended = server.run(server.remote("sum").arg("--relative").arg(&place));
    assert_eq!((ended.code, ended.out()), (Some(0), expected(&server).as_str()), "{}", ended.stderr);
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(
        lines,
        [
            "verisum: web1: powershell (Get-FileHash) is not used: it gives wrong digests, or none",
            "verisum: web1: sha256 by certutil (certutil -hashfile)"
        ]
    );
    let Some(server) = windows("certutil") else { return };
    let ended = server.run(server.remote("sum").args(["--way", "certutil"]).arg(&place));
    assert_eq!((ended.code, ended.out()), (Some(3), ""));
    assert!(
        ended.stderr.contains("nothing there computes sha256 among certutil (wrong: certutil"),
        "{}",
        ended.stderr
    );
}

#[test]
fn what_has_neither_shell_is_told_as_before() {
    let Some(server) = forced("echo no such thing >&2; exit 1\n") else { return };
    let ended = server.run(server.remote("sum").arg("web1:/etc"));
    assert_eq!((ended.code, ended.out()), (Some(3), ""));
    assert_eq!(ended.stderr, "verisum: web1: start /bin/sh: no such thing (it ended with the code 1)\n");
    // With a digest that they do not have, nobody asks twice.
    let Some(server) = windows("") else { return };
    let ended = server.run(server.remote("sum").args(["-a", "blake3", "web1:/etc"]));
    let told = "verisum: web1: start /bin/sh: operable program or batch file. (it ended with the code ";
    assert!(ended.stderr.starts_with(told) && ended.stderr.lines().count() == 1, "{}", ended.stderr);
}
