// Runs a compiled program on tensors that torch.save wrote, as docs/serving.md explains:
//   serve program.pt2 inputs.pt outputs.pt
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/serialize.h>

#include <fstream>
#include <iterator>

int main(int, char** argv) {
  torch::inductor::AOTIModelPackageLoader program(argv[1]);
  std::ifstream file(argv[2], std::ios::binary);
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<at::Tensor> inputs;
  c10::List<c10::IValue> values = torch::pickle_load(bytes).toList();
  for (size_t i = 0; i < values.size(); i++) inputs.push_back(values.get(i).toTensor());

  std::vector<at::Tensor> outputs = program.run(inputs);

  std::vector<char> written = torch::pickle_save(outputs);
  std::ofstream(argv[3], std::ios::binary).write(written.data(), written.size());
}
