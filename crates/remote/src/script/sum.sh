@GUARD@xargs -0 @BATCH@ /dev/null 2>/dev/null
printf '@END@end %s@END@' "$?"
