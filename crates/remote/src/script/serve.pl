use strict;
binmode STDIN; binmode STDOUT;
$/ = "\0";
my $alg;
sub digest {
  if ($alg eq "md5") { require Digest::MD5; return Digest::MD5->new }
  require Digest::SHA;
  $alg =~ /^sha([0-9]+)$/ or die;
  return Digest::SHA->new($1) || die;
}
sub put { print join("\t", @_), "\0" }
sub flush_all { $| = 1; $| = 0 }
sub next_field { my $f = <STDIN>; exit 0 unless defined $f; chomp $f; return $f }
sub word {
  my $e = $! + 0;
  my $w = ($!{ENOENT} || $!{ENOTDIR}) ? "missing" : ($!{EACCES} || $!{EPERM}) ? "denied" : "failed";
  my $t = "$!"; $t =~ s/[\t\0\n]/ /g;
  return ($w, $t);
}
sub file {
  my $p = shift;
  my @s = stat($p);
  return word() unless @s;
  return ("directory", "") if -d _;
  return ("special", "") unless -f _;
  return ("ok", $s[7], "$s[9]/$s[1]", "-", "-") if $alg eq "-";
  open(my $h, "<", $p) or return word();
  binmode $h;
  my $d = digest();
  my $b;
  while (1) {
    my $n = sysread($h, $b, 262144);
    if (!defined $n) { next if $!{EINTR}; return word() }
    last unless $n;
    $d->add($b);
  }
  my @t = stat($h);
  my $c = ($t[7] == $s[7] && $t[9] == $s[9] && $t[10] == $s[10]) ? "-" : "changed";
  return ("ok", $t[7], "$t[9]/$t[1]", $d->hexdigest, $c);
}
sub one {
  my ($p, $after) = @_;
  return unless $p gt $after;
  my ($w, @r) = file($p);
  if ($w eq "ok") { put("f", @r, $p) } else { put("e", $w, $r[0], $p) }
}
sub walk {
  my ($dir, $after) = @_;
  my $base = $dir eq "/" ? "/" : "$dir/";
  return if $base lt $after && substr($after, 0, length $base) ne $base;
  my $h;
  if (!opendir($h, $dir)) { put("e", word(), $dir); return }
  my @names;
  local $/ = "\0";
  while (defined(my $n = readdir $h)) {
    next if $n eq "." || $n eq "..";
    if (!lstat("$base$n")) { put("e", word(), "$base$n"); next }
    if (-l _) { next }
    elsif (-d _) { push @names, "$n/" }
    elsif (-f _) { push @names, $n }
  }
  closedir $h;
  for my $n (sort @names) {
    if (substr($n, -1) eq "/") { chop $n; walk("$base$n", $after) } else { one("$base$n", $after) }
  }
}
require Errno; Errno->import;
put("verisum-remote 1");
flush_all();
while (1) {
  my $r = next_field();
  if ($r eq "test") {
    $alg = next_field();
    my @h = map { my $d = digest(); $d->add($_); $d->hexdigest } ("abc", join("", map { chr } 0 .. 255), "");
    put("t", @h); put("end");
  } elsif ($r eq "tree") {
    $alg = next_field();
    my ($p, $after) = (next_field(), next_field());
    my @s = stat($p);
    if (!@s) { put("e", word(), $p) }
    elsif (-d _) { walk($p, $after) }
    else { one($p, $after) }
    put("end");
  } elsif ($r eq "names") {
    $alg = next_field();
    my $i = 0;
    while ((my $n = next_field()) ne ".") {
      my ($w, @r) = file(substr($n, 1));
      if ($w eq "ok") { put("h", $i, @r) } else { put("x", $i, $w, $r[0]) }
      $i++;
    }
    put("end");
  } else { put("bad", "request"); exit 1 }
  flush_all();
}
