import sys, os, errno, stat, hashlib
i = getattr(sys.stdin, "buffer", sys.stdin)
o = getattr(sys.stdout, "buffer", sys.stdout)
buf = [b""]
pos = [0]
fields = []
def field():
    while not fields:
        d = os.read(0, 65536)
        if not d:
            sys.exit(0)
        parts = (buf[0] + d).split(b"\0")
        buf[0] = parts.pop()
        parts.reverse()
        fields.extend(parts)
    return fields.pop()
def put(*a):
    o.write(b"\t".join(a) + b"\0")
def text(n):
    return str(n).encode("ascii")
def word(e):
    w = b"failed"
    if e.errno in (errno.ENOENT, errno.ENOTDIR):
        w = b"missing"
    elif e.errno in (errno.EACCES, errno.EPERM):
        w = b"denied"
    return (w, text(e.strerror).replace(b"\t", b" "))
def when(s):
    ns = getattr(s, "st_mtime_ns", None)
    born = getattr(s, "st_birthtime", 0)
    if ns is None:
        return text("%d/%d/%d" % (s.st_mtime // 1, s.st_ino, born))
    return text("%d.%09d/%d/%d" % (ns // 1000000000, ns % 1000000000, s.st_ino, born))
def state(s):
    return (s.st_size, s.st_mtime, s.st_ctime)
def read(p, alg):
    s = os.stat(p)
    if stat.S_ISDIR(s.st_mode):
        return (b"directory", b"")
    if not stat.S_ISREG(s.st_mode):
        return (b"special", b"")
    if alg == "-":
        return (b"ok", text(s.st_size), when(s), b"-", b"-")
    h = hashlib.new(alg)
    f = os.open(p, os.O_RDONLY | os.O_NONBLOCK)
    try:
        while True:
            b = os.read(f, 262144)
            if not b:
                break
            h.update(b)
        t = os.fstat(f)
    finally:
        os.close(f)
    c = b"-"
    if state(s) != state(t):
        c = b"changed"
    return (b"ok", text(t.st_size), when(t), text(h.hexdigest()), c)
def file(p, alg):
    try:
        return read(p, alg)
    except EnvironmentError:
        return word(sys.exc_info()[1])
def one(p, alg, after):
    if not p > after:
        return
    r = file(p, alg)
    if r[0] == b"ok":
        put(b"f", r[1], r[2], r[3], r[4], p)
    else:
        put(b"e", r[0], r[1], p)
def entries(d, after):
    base = d
    if d != b"/":
        base = d + b"/"
    if base < after and not after.startswith(base):
        return iter(())
    try:
        names = os.listdir(d)
    except EnvironmentError:
        w = word(sys.exc_info()[1])
        put(b"e", w[0], w[1], d)
        return iter(())
    found = []
    for n in names:
        try:
            m = os.lstat(base + n).st_mode
        except EnvironmentError:
            w = word(sys.exc_info()[1])
            put(b"e", w[0], w[1], base + n)
            continue
        if stat.S_ISDIR(m):
            found.append((n + b"/", base + n))
        elif stat.S_ISREG(m):
            found.append((n, base + n))
    found.sort()
    return iter(found)
def walk(d, alg, after):
    levels = [entries(d, after)]
    while levels:
        found = next(levels[-1], None)
        if found is None:
            levels.pop()
        elif found[0].endswith(b"/"):
            levels.append(entries(found[1], after))
        else:
            one(found[1], alg, after)
put(b"verisum-remote 1")
o.flush()
while True:
    r = field()
    if r == b"test":
        alg = field().decode("ascii")
        v = [b"abc", bytes(bytearray(range(256))), b""]
        out = [b"t"]
        for m in v:
            h = hashlib.new(alg)
            h.update(m)
            out.append(text(h.hexdigest()))
        put(*out)
    elif r == b"tree":
        alg = field().decode("ascii")
        p = field()
        after = field()
        try:
            if stat.S_ISDIR(os.stat(p).st_mode):
                walk(p, alg, after)
            else:
                one(p, alg, after)
        except EnvironmentError:
            w = word(sys.exc_info()[1])
            put(b"e", w[0], w[1], p)
    elif r == b"names":
        alg = field().decode("ascii")
        k = 0
        while True:
            n = field()
            if n == b".":
                break
            r = file(n[1:], alg)
            if r[0] == b"ok":
                put(b"h", text(k), r[1], r[2], r[3], r[4])
            else:
                put(b"x", text(k), r[0], r[1])
            k += 1
    else:
        put(b"bad", b"request")
        sys.exit(1)
    put(b"end")
    o.flush()
