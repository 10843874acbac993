"""CPUID and XGETBV. What they mean is decided in `_loader`.

Compiled without any instruction-set flag: it runs before anything is known of the CPU.
"""

cdef extern from *:
    """
    #if defined(__x86_64__) || defined(__i386__)
    #include <cpuid.h>

    static void qops_cpuid(unsigned leaf, unsigned subleaf, unsigned *r) {
        __cpuid_count(leaf, subleaf, r[0], r[1], r[2], r[3]);
    }

    /* as bytes: the intrinsic wants a flag, and old assemblers do not know the name */
    static unsigned long long qops_xgetbv(void) {
        unsigned low, high;
        __asm__ volatile(".byte 0x0f, 0x01, 0xd0" : "=a"(low), "=d"(high) : "c"(0));
        return (unsigned long long)high << 32 | low;
    }
    #else
    static void qops_cpuid(unsigned leaf, unsigned subleaf, unsigned *r) {
        (void)leaf, (void)subleaf;
        r[0] = r[1] = r[2] = r[3] = 0;
    }

    static unsigned long long qops_xgetbv(void) { return 0; }
    #endif
    """
    void qops_cpuid(unsigned leaf, unsigned subleaf, unsigned *r) noexcept nogil
    unsigned long long qops_xgetbv() noexcept nogil


def cpuid(unsigned leaf, unsigned subleaf):
    """Return what CPUID says: (eax, ebx, ecx, edx), zeros where there is no CPUID."""
    cdef unsigned[4] r
    qops_cpuid(leaf, subleaf, r)
    return r[0], r[1], r[2], r[3]


def xgetbv():
    """Return XCR0. An illegal instruction unless CPUID shows OSXSAVE."""
    return qops_xgetbv()
