$ErrorActionPreference='Stop';$ProgressPreference='SilentlyContinue'
$a=[Text.Encoding]::ASCII
$i=New-Object IO.StreamReader([Console]::OpenStandardInput(),$a)
$o=New-Object IO.StreamWriter([Console]::OpenStandardOutput(),$a)
$o.NewLine="`n"
$o.WriteLine('@verisum@');$o.Flush()
[Console]::Error.WriteLine('@verisum@')
$s=''
while(($l=$i.ReadLine())-ne '#end'){if($l -eq $null){exit 1};$s+=$l+"`n"}
Invoke-Expression $s
