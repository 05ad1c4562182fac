$utf = New-Object Text.UTF8Encoding($false)
function Field { $l = $i.ReadLine(); if ($l -eq $null) { exit 0 }; return $utf.GetString([Convert]::FromBase64String($l)) }
function Put { $o.WriteLine([Convert]::ToBase64String($utf.GetBytes($args -join "`t"))) }
function Hex($bytes) { return ([BitConverter]::ToString($bytes) -replace '-').ToLower() }
function Own($alg, $stream) { $h = [Security.Cryptography.HashAlgorithm]::Create($alg); try { return Hex ($h.ComputeHash($stream)) } finally { $h.Clear() } }
function Certutil($alg, $p) {
  $lines = @(& certutil.exe -hashfile $p $alg)
  if ($LASTEXITCODE -ne 0) { throw "certutil ended with the code $LASTEXITCODE" }
  return ($lines -join '|') -replace "`t", ' '
}
function Digest($alg, $p, $size) {
  if ($tool -ne 'certutil') { return (Get-FileHash -LiteralPath $p -Algorithm $alg -ErrorAction Stop).Hash.ToLower() }
  if ($size -eq 0) { $s = [IO.File]::OpenRead($p); try { return Own $alg $s } finally { $s.Close() } }
  return Certutil $alg $p
}
function Test($alg, $bytes) {
  $s = New-Object IO.MemoryStream(, [byte[]]$bytes)
  if ($tool -ne 'certutil') { return (Get-FileHash -InputStream $s -Algorithm $alg).Hash.ToLower() }
  return Own $alg $s
}
function Native($p) {
  $n = ($p -replace '^\.?/([A-Za-z]:)', '$1').Replace('/', '\')
  if ($n.EndsWith(':')) { $n += '\' }
  return $n
}
function When($f) {
  $rest = [long]0
  $s = [Math]::DivRem([long]($f.LastWriteTimeUtc.Ticks - 621355968000000000), [long]10000000, [ref]$rest)
  return '{0}.{1:d7}' -f $s, $rest
}
function Word($e) {
  while ($e.InnerException) { $e = $e.InnerException }
  $w = 'failed'
  if ($e -is [IO.FileNotFoundException] -or $e -is [IO.DirectoryNotFoundException] -or $e -is [Management.Automation.ItemNotFoundException]) { $w = 'missing' }
  elseif ($e -is [UnauthorizedAccessException]) { $w = 'denied' }
  return $w, ($e.Message -replace '\s+', ' ')
}
function Read1($p, $alg) {
  try {
    $n = Native $p
    if ([IO.Directory]::Exists($n)) { return 'directory', '' }
    $f = New-Object IO.FileInfo($n)
    if (-not $f.Exists) { return 'missing', '' }
    if ($f.Attributes -band [IO.FileAttributes]::Device) { return 'special', '' }
    if ($alg -eq '-') { return 'ok', $f.Length, (When $f), '-', '-' }
    $size = $f.Length; $time = $f.LastWriteTimeUtc
    $d = Digest $alg $f.FullName $size
    $f.Refresh()
    $c = '-'; if ($f.Length -ne $size -or $f.LastWriteTimeUtc -ne $time) { $c = 'changed' }
    return 'ok', $f.Length, (When $f), $d, $c
  } catch { return Word $_.Exception }
}
function One($p, $alg, $after) {
  if ([String]::CompareOrdinal($p, $after) -le 0) { return }
  $r = Read1 $p $alg
  if ($r[0] -eq 'ok') { Put 'f' $r[1] $r[2] $r[3] $r[4] $p } else { Put 'e' $r[0] $r[1] $p }
}
function Walk($dir, $alg, $after) {
  $base = $dir; if (-not $base.EndsWith('/')) { $base += '/' }
  if ([String]::CompareOrdinal($base, $after) -lt 0 -and -not $after.StartsWith($base, [StringComparison]::Ordinal)) { return }
  try { $found = @((New-Object IO.DirectoryInfo((Native $base))).GetFileSystemInfos()) }
  catch { $r = Word $_.Exception; Put 'e' $r[0] $r[1] $dir; return }
  $names = New-Object Collections.ArrayList
  foreach ($f in $found) {
    if ($f.Attributes -band [IO.FileAttributes]::ReparsePoint) { continue }
    if ($f -is [IO.DirectoryInfo]) { [void]$names.Add($f.Name + '/') } else { [void]$names.Add($f.Name) }
  }
  $names.Sort([StringComparer]::Ordinal)
  foreach ($n in $names) {
    if ($n.EndsWith('/')) { Walk ($base + $n.Substring(0, $n.Length - 1)) $alg $after } else { One ($base + $n) $alg $after }
  }
}
Put 'verisum-remote 1'
$o.Flush()
while ($true) {
  $r = Field
  $alg = ''
  if ($r -ne '') { $alg = Field }
  if ($r -eq 'test') {
    try {
      if ($tool -eq 'certutil') {
        $p = Join-Path ([Environment]::SystemDirectory) 'certutil.exe'
        $s = [IO.File]::OpenRead($p)
        try { $own = Own $alg $s } finally { $s.Close() }
        Put 'c' $own (Certutil $alg $p)
      }
      Put 't' (Test $alg ([Text.Encoding]::ASCII.GetBytes('abc'))) (Test $alg ([byte[]](0..255))) (Test $alg ([byte[]]@()))
    } catch { Put 'e' 'failed' $_.Exception.Message '' }
  } elseif ($r -eq 'tree') {
    $p = Field
    $after = Field
    if ([IO.Directory]::Exists((Native $p))) { Walk $p $alg $after } else { One $p $alg $after }
  } elseif ($r -eq 'names') {
    $k = 0
    while (($n = Field) -ne '.') {
      $r = Read1 $n.Substring(1) $alg
      if ($r[0] -eq 'ok') { Put 'h' $k $r[1] $r[2] $r[3] $r[4] } else { Put 'x' $k $r[0] $r[1] }
      $k++
    }
  } else { Put 'bad' 'request'; exit 1 }
  Put 'end'
  $o.Flush()
}
