// remory._index: the flat index for Python. Arguments come checked from remory.search.flat; the GIL is free while it
// works.
#include <cxxabi.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <optional>

#include "flat_file.h"
#include "flat_index.h"

namespace py = pybind11;

namespace remory::index {
namespace {

template <class Element>
using Array = py::array_t<Element, py::array::c_style>;
using OptionalMask = std::optional<Array<bool>>;

// At the end of the program Python ends each daemon thread that asks for the GIL, by unwinding its stack. That may not
// pass a destructor, and so not py::gil_scoped_release; nor should it pass objects of Python, which it would let go of
// without the GIL. Such a thread waits here until the process is gone.
void take_gil(PyThreadState* thread) {
#ifdef __GLIBCXX__
  try {
    PyEval_RestoreThread(thread);
  } catch (const abi::__forced_unwind&) {
    for (;;) pause();
  }
#else
  PyEval_RestoreThread(thread);
#endif
}

template <class Work>
void without_gil(const Work& work) {
  std::exception_ptr failure;
  PyThreadState* thread = PyEval_SaveThread();
  try {
    work();
  } catch (...) {
    failure = std::current_exception();
  }
  take_gil(thread);
  if (failure) std::rethrow_exception(failure);
}

Mask mask_of(const OptionalMask& mask) {
  static_assert(sizeof(bool) == 1);
  if (!mask) return {};
  // An empty mask takes nobody; a null pointer would take all.
  static const uint8_t nobody = 0;
  return {mask->size() == 0 ? &nobody : reinterpret_cast<const uint8_t*>(mask->data()), mask->size()};
}

py::tuple search(const FlatView& view, const Array<float>& queries, int64_t k, const OptionalMask& mask, int threads) {
  const int64_t count = queries.shape(0);
  Array<float> scores({count, k});
  Array<int64_t> ids({count, k});
  const float* given = queries.data();
  float* scores_out = scores.mutable_data();
  int64_t* ids_out = ids.mutable_data();
  const Mask taking = mask_of(mask);
  without_gil([&] { view.search(given, count, k, taking, threads, scores_out, ids_out); });
  return py::make_tuple(std::move(scores), std::move(ids));
}

py::tuple bounds(const FlatView& view, const Array<float>& query, int64_t k, const OptionalMask& mask, int threads) {
  const std::vector<Bounded> bounded = view.bounds(query.data(), k, mask_of(mask), threads);
  const auto count = static_cast<int64_t>(bounded.size());
  Array<int64_t> ids(count);
  Array<float> lower(count), upper(count);
  for (int64_t i = 0; i < count; ++i) {
    ids.mutable_at(i) = bounded[i].id;
    lower.mutable_at(i) = bounded[i].lower;
    upper.mutable_at(i) = bounded[i].upper;
  }
  return py::make_tuple(std::move(ids), std::move(lower), std::move(upper));
}

using Write = void (FlatIndex::*)(const int64_t*, const float*, int64_t, int);

template <Write write>
void write_rows(FlatIndex& index, const Array<int64_t>& ids, const Array<float>& vectors, int threads) {
  const int64_t *first_id = ids.data(), count = ids.size();
  const float* rows = vectors.data();
  without_gil([&] { (index.*write)(first_id, rows, count, threads); });
}

int64_t remove_rows(FlatIndex& index, const Array<int64_t>& ids) {
  const int64_t *first_id = ids.data(), count = ids.size();
  int64_t removed = 0;
  without_gil([&] { removed = index.remove(first_id, count); });
  return removed;
}

void save_index(const FlatIndex& index, const std::string& path) {
  without_gil([&] { save(index.view(), index.certified(), path); });
}

std::unique_ptr<FlatIndex> load_index(const std::string& path, int threads) {
  std::unique_ptr<FlatIndex> index;
  without_gil([&] { index = load(path, threads); });
  return index;
}

void register_errors() {
  py::register_exception_translator([](std::exception_ptr thrown) {
    const auto raise = [](const char* name, const std::exception& error) {
      // A path in it need not be UTF-8.
      const auto what = py::reinterpret_steal<py::object>(PyUnicode_DecodeFSDefault(error.what()));
      PyErr_SetObject(py::module_::import("remory.errors").attr(name).ptr(), what.ptr());
    };
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const InvalidInput& error) {
      raise("InvalidInput", error);
    } catch (const DamagedFile& error) {
      raise("DamagedIndex", error);
    } catch (const FileError& error) {
      errno = error.code;
      PyErr_SetFromErrnoWithFilename(PyExc_OSError, error.path.c_str());
    }
  });
}

}  // namespace
}  // namespace remory::index

PYBIND11_MODULE(_index, module) {
  using namespace remory::index;
  register_errors();

  py::class_<FlatView>(module, "FlatView")
      .def("__len__", &FlatView::size)
      .def_property_readonly("dimension", &FlatView::dimension)
      .def("search", &search)
      // What the tests prove and the benchmark counts: the bounds with which rows were left to be scored exactly.
      .def("bounds", &bounds);

  py::class_<FlatIndex>(module, "FlatIndex")
      .def(py::init<int64_t, bool>())
      .def("__len__", [](const FlatIndex& index) { return index.view().size(); })
      .def_property_readonly("dimension", &FlatIndex::dimension)
      .def_property_readonly("certified", &FlatIndex::certified)
      .def_property_readonly("nbytes", &FlatIndex::nbytes)
      .def("view", &FlatIndex::view)
      .def("add", &write_rows<&FlatIndex::add>)
      .def("replace", &write_rows<&FlatIndex::replace>)
      .def("remove", &remove_rows)
      .def("save", &save_index)
      .def_static("load", &load_index);

  module.def("instructions", &instructions);
  module.def("choose_instructions", &choose_instructions);
}
