//! Bindings to the few calls of libcrypto 3 that digests need, resolved at run time.
//!
//! Signatures are those of OpenSSL's manual pages EVP_DigestInit(3) and OSSL_PROVIDER(3); they are
//! stable across the whole 3.x series, which the library's name promises.

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_uint, c_ulong, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Once, OnceLock};

use libloading::Library;

/// File names of the library, the most precise first.
const NAMES: &[&str] =
    if cfg!(target_os = "macos") { &["libcrypto.3.dylib"] } else { &["libcrypto.so.3", "libcrypto.so.4"] };

/// `EVP_MD_FLAG_XOF` of openssl/evp.h: the digest's length is the caller's choice.
const FLAG_XOF: c_ulong = 0x0002;

type DoAllCallback = unsafe extern "C" fn(*mut c_void, *mut c_void);

/// The library and the functions found in it.
pub struct LibCrypto {
    version_num: unsafe extern "C" fn() -> c_ulong,
    md_fetch: unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void,
    md_free: unsafe extern "C" fn(*mut c_void),
    md_get_size: unsafe extern "C" fn(*const c_void) -> c_int,
    md_get_flags: unsafe extern "C" fn(*const c_void) -> c_ulong,
    md_get0_name: unsafe extern "C" fn(*const c_void) -> *const c_char,
    md_do_all_provided: unsafe extern "C" fn(*mut c_void, DoAllCallback, *mut c_void),
    ctx_new: unsafe extern "C" fn() -> *mut c_void,
    ctx_free: unsafe extern "C" fn(*mut c_void),
    ctx_copy_ex: unsafe extern "C" fn(*mut c_void, *const c_void) -> c_int,
    digest_init_ex2: unsafe extern "C" fn(*mut c_void, *const c_void, *const c_void) -> c_int,
    digest_update: unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> c_int,
    digest_final_ex: unsafe extern "C" fn(*mut c_void, *mut c_uchar, *mut c_uint) -> c_int,
    digest_final_xof: unsafe extern "C" fn(*mut c_void, *mut c_uchar, usize) -> c_int,
    provider_try_load: unsafe extern "C" fn(*mut c_void, *const c_char, c_int) -> *mut c_void,
    err_clear_error: unsafe extern "C" fn(),
    /// Never read. The provider stays for the life of the process, and where nothing points to it, leak
    /// checkers of programs that use a library of ours complain.
    legacy: AtomicPtr<c_void>,
    _library: Library,
}

impl LibCrypto {
    /// The library, loaded at the first call; or why it cannot be.
    pub fn load() -> Result<&'static LibCrypto, &'static str> {
        static LIBRARY: OnceLock<Result<LibCrypto, String>> = OnceLock::new();
        LIBRARY.get_or_init(LibCrypto::open).as_ref().map_err(String::as_str)
    }

    fn open() -> Result<LibCrypto, String> {
        let library = NAMES
            .iter()
            .find_map(|name| {
                // SAFETY: libcrypto's initialisers may run at any time; it is never unloaded, because
                // the value lives in a static.
                unsafe { Library::new(name) }.ok()
            })
            .ok_or_else(|| format!("{} (OpenSSL 3; package libssl3) is not installed", NAMES[0]))?;
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: the field's type is the signature in OpenSSL's manual.
                *unsafe { library.get(concat!($name, "\0").as_bytes()) }
                    .map_err(|_| format!("{} lacks {}", NAMES[0], $name))?
            };
        }
        Ok(LibCrypto {
            version_num: symbol!("OpenSSL_version_num"),
            md_fetch: symbol!("EVP_MD_fetch"),
            md_free: symbol!("EVP_MD_free"),
            md_get_size: symbol!("EVP_MD_get_size"),
            md_get_flags: symbol!("EVP_MD_get_flags"),
            md_get0_name: symbol!("EVP_MD_get0_name"),
            md_do_all_provided: symbol!("EVP_MD_do_all_provided"),
            ctx_new: symbol!("EVP_MD_CTX_new"),
            ctx_free: symbol!("EVP_MD_CTX_free"),
            ctx_copy_ex: symbol!("EVP_MD_CTX_copy_ex"),
            digest_init_ex2: symbol!("EVP_DigestInit_ex2"),
            digest_update: symbol!("EVP_DigestUpdate"),
            digest_final_ex: symbol!("EVP_DigestFinal_ex"),
            digest_final_xof: symbol!("EVP_DigestFinalXOF"),
            provider_try_load: symbol!("OSSL_PROVIDER_try_load"),
            err_clear_error: symbol!("ERR_clear_error"),
            legacy: AtomicPtr::default(),
            _library: library,
        })
    }

    /// The version as `MAJOR.MINOR.PATCH`.
    pub fn version(&self) -> String {
        // SAFETY: takes and gives plain numbers.
        let number = unsafe { (self.version_num)() };
        format!("{}.{}.{}", number >> 28, (number >> 20) & 0xff, (number >> 4) & 0xff)
    }

    /// The digest of this name, from the default provider or, failing that, the legacy one.
    pub fn fetch(&'static self, name: &str) -> Option<Md> {
        let name = CString::new(name).ok()?;
        self.fetch_loaded(&name).or_else(|| {
            self.load_legacy();
            self.fetch_loaded(&name)
        })
    }

    fn fetch_loaded(&'static self, name: &CStr) -> Option<Md> {
        // SAFETY: null selects the default library context and no properties; `name` ends with NUL.
        let raw = unsafe { (self.md_fetch)(ptr::null_mut(), name.as_ptr(), ptr::null()) };
        if raw.is_null() {
            // SAFETY: clears this thread's error queue only; a failed look-up must not linger in it.
            unsafe { (self.err_clear_error)() };
            return None;
        }
        Some(Md { library: self, raw })
    }

    /// Loads the provider of MD4 and Whirlpool, beside the default one. Absent on many systems.
    fn load_legacy(&self) {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // SAFETY: the name ends with NUL; 1 keeps the fall-back to the default provider.
            unsafe {
                let handle = (self.provider_try_load)(ptr::null_mut(), c"legacy".as_ptr(), 1);
                self.legacy.store(handle, Ordering::Relaxed);
                (self.err_clear_error)();
            }
        });
    }

    /// The first name of every digest of the loaded providers.
    pub fn names(&self) -> Vec<String> {
        struct Collected<'a> {
            library: &'a LibCrypto,
            names: Vec<String>,
        }

        unsafe extern "C" fn collect(md: *mut c_void, argument: *mut c_void) {
            // SAFETY: `argument` is the pointer to `collected` given below, used by nobody else
            // meanwhile; `md` is valid during the call, and so is its name.
            unsafe {
                let collected = &mut *argument.cast::<Collected<'_>>();
                let name = (collected.library.md_get0_name)(md);
                if !name.is_null() {
                    collected.names.push(CStr::from_ptr(name).to_string_lossy().into_owned());
                }
            }
        }

        self.load_legacy();
        let mut collected = Collected { library: self, names: Vec::new() };
        // SAFETY: the callback casts its argument back to what it is; a Rust panic (out of memory)
        // aborts at the `extern "C"` border.
        unsafe { (self.md_do_all_provided)(ptr::null_mut(), collect, (&raw mut collected).cast()) };
        collected.names
    }
}

/// A fetched digest.
pub struct Md {
    library: &'static LibCrypto,
    raw: *mut c_void,
}

// SAFETY: a fetched EVP_MD is immutable and reference-counted with atomics; OpenSSL documents it as
// usable from several threads.
unsafe impl Send for Md {}
// SAFETY: as above.
unsafe impl Sync for Md {}

impl Md {
    /// Length of the digest in bytes (0 for one without a length of its own).
    pub fn len(&self) -> usize {
        // SAFETY: `raw` is valid until drop.
        usize::try_from(unsafe { (self.library.md_get_size)(self.raw) }).unwrap_or(0)
    }

    fn is_xof(&self) -> bool {
        // SAFETY: `raw` is valid until drop.
        unsafe { (self.library.md_get_flags)(self.raw) & FLAG_XOF != 0 }
    }
}

impl Drop for Md {
    fn drop(&mut self) {
        // SAFETY: `raw` came from EVP_MD_fetch and is freed once.
        unsafe { (self.library.md_free)(self.raw) }
    }
}

/// A message being hashed.
pub struct Context {
    md: Arc<Md>,
    raw: *mut c_void,
}

// SAFETY: an EVP_MD_CTX may move between threads; it is not Sync, and `&mut self` guards every use.
unsafe impl Send for Context {}

impl Context {
    /// Starts a message. Errors name the call that failed.
    pub fn new(md: Arc<Md>) -> Result<Context, &'static str> {
        // SAFETY: takes nothing.
        let raw = unsafe { (md.library.ctx_new)() };
        if raw.is_null() {
            return Err("EVP_MD_CTX_new");
        }
        let mut context = Context { md, raw };
        context.init()?;
        Ok(context)
    }

    fn init(&mut self) -> Result<(), &'static str> {
        // SAFETY: both objects are valid; null means no parameters.
        let ok = unsafe { (self.md.library.digest_init_ex2)(self.raw, self.md.raw, ptr::null()) };
        if ok == 1 { Ok(()) } else { Err("EVP_DigestInit_ex2") }
    }

    /// Adds bytes to the message.
    pub fn update(&mut self, data: &[u8]) -> Result<(), &'static str> {
        // SAFETY: the context is valid and the pointer is good for `len` bytes.
        let ok = unsafe { (self.md.library.digest_update)(self.raw, data.as_ptr().cast(), data.len()) };
        if ok == 1 { Ok(()) } else { Err("EVP_DigestUpdate") }
    }

    /// Ends the message, fills `digest`, whose length is the digest's, and starts the next message.
    pub fn finish_and_reset(&mut self, digest: &mut [u8]) -> Result<(), &'static str> {
        let ok = if self.md.is_xof() {
            // SAFETY: the function writes exactly `digest.len()` bytes.
            unsafe { (self.md.library.digest_final_xof)(self.raw, digest.as_mut_ptr(), digest.len()) }
        } else {
            assert_eq!(digest.len(), self.md.len(), "room for exactly one digest");
            // SAFETY: the function writes the digest's length, which the line above compared; a null
            // length pointer is allowed.
            unsafe { (self.md.library.digest_final_ex)(self.raw, digest.as_mut_ptr(), ptr::null_mut()) }
        };
        if ok != 1 {
            return Err("EVP_DigestFinal");
        }
        self.init()
    }

    /// Another message that begins with the same bytes.
    pub fn copy(&self) -> Result<Context, &'static str> {
        let copy = Context::new(self.md.clone())?;
        // SAFETY: both contexts are valid; the call reads one and writes the other.
        let ok = unsafe { (self.md.library.ctx_copy_ex)(copy.raw, self.raw) };
        if ok == 1 { Ok(copy) } else { Err("EVP_MD_CTX_copy_ex") }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: `raw` came from EVP_MD_CTX_new and is freed once.
        unsafe { (self.md.library.ctx_free)(self.raw) }
    }
}
