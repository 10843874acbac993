/* library.c - the kernel table of one level, and the module whose only content it is.
 *
 * Included last by the level's translation unit, which setup.py writes; QOPS_LEVEL and HAVE_<op>
 * come from there, QOPS_VERSION from _cpu_dispatch.h. */
#include <Python.h>

#define ENTRY_1(family, op, in, out) {#op, family, in, out, (qops_any_fn *)op##_##in##_##out},
#define ENTRY_0(family, op, in, out) {#op, family, in, out, NULL},
#define ENTRY_(have, family, op, in, out) ENTRY_##have(family, op, in, out)
#define ENTRY(have, family, op, in, out) ENTRY_(have, family, op, in, out)

#define KERNEL(family, op, in, out) ENTRY(HAVE_##op, family, op, in, out)
static const qops_kernel kernels[] = {
#include "kernels.def"
};
#undef KERNEL

static const qops_library library = {QOPS_ABI, QOPS_N_KERNELS, QOPS_VERSION, QOPS_LEVEL, kernels};

static int add_library(PyObject *module) {
    PyObject *capsule = PyCapsule_New((void *)&library, QOPS_CAPSULE, NULL);
    const int status = PyModule_AddObjectRef(module, "library", capsule); /* NULL is an error */
    Py_XDECREF(capsule);
    return status;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)add_library},
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_lib",
                                 .m_doc = "The kernels of one instruction-set level.",
                                 .m_slots = slots};

PyMODINIT_FUNC PyInit__lib(void);
PyMODINIT_FUNC PyInit__lib(void) { return PyModuleDef_Init(&definition); }
