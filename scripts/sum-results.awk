# Adds up what the test runners' closing lines say: cargo test, Python's unittest, pytest, and our own
# scripts' "N passed, N failed, N skipped". Ends in a failure if anything failed, if a stage failed
# without saying which test (-v broken=N stages), or if no test ran at all.

/^test result: / {
    passed += number("[0-9]+ passed")
    failed += number("[0-9]+ failed")
    skipped += number("[0-9]+ ignored")
}

/^[0-9]+ passed, [0-9]+ failed/ {
    passed += number("[0-9]+ passed")
    failed += number("[0-9]+ failed")
    skipped += number("[0-9]+ skipped")
}

# pytest leaves out what there is none of, and names what failed first.
/^[0-9]+ [a-z]+(, [0-9]+ [a-z]+)* in [0-9.]+s/ {
    passed += number("[0-9]+ passed")
    failed += number("[0-9]+ failed") + number("[0-9]+ errors?")
    skipped += number("[0-9]+ skipped")
}

# unittest says how many ran, and on its last line how many of them failed or were skipped.
/^Ran [0-9]+ tests? in / { ran = number("[0-9]+ test") }

/^(OK|FAILED)( \(.*\))?$/ && ran != "" {
    bad = number("failures=[0-9]+") + number("errors=[0-9]+")
    left_out = number("skipped=[0-9]+")
    passed += ran - bad - left_out
    failed += bad
    skipped += left_out
    ran = ""
}

END {
    if (failed == 0 && broken > 0) failed = broken
    printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
    exit failed > 0 || passed == 0
}

# The number inside the first match of a pattern on this line; 0 without one.
function number(pattern,    text) {
    if (!match($0, pattern)) return 0
    text = substr($0, RSTART, RLENGTH)
    gsub(/[^0-9]/, "", text)
    return text + 0
}
