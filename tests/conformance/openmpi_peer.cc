// Runs one collective of OpenMPI many times, for comparison in collectives_bench.
//
//   mpirun -n 2 openmpi_peer all_gather 1048576 100
//
// prints the mean in microseconds until all ranks are done. Bytes are those of the whole tensor, as
// in collectives_bench.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  MPI_Init(&argc, &argv);
  const std::string kind = argv[1];
  const int elements = std::atoi(argv[2]) / 4, rounds = std::atoi(argv[3]);
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const auto size = static_cast<size_t>(elements);
  std::vector<float> in(size, static_cast<float>(rank)), out(size);
  const int part = elements / ranks;
  const auto collect = [&] {
    if (kind == "all_reduce")
      MPI_Allreduce(in.data(), out.data(), elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (kind == "all_gather")
      MPI_Allgather(in.data(), part, MPI_FLOAT, out.data(), part, MPI_FLOAT, MPI_COMM_WORLD);
    if (kind == "reduce_scatter")
      MPI_Reduce_scatter_block(in.data(), out.data(), part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (kind == "all_to_all")
      MPI_Alltoall(in.data(), part, MPI_FLOAT, out.data(), part, MPI_FLOAT, MPI_COMM_WORLD);
    if (kind == "collective_broadcast")
      MPI_Bcast(in.data(), elements, MPI_FLOAT, 0, MPI_COMM_WORLD);
  };
  for (int i = 0; i < rounds / 10 + 1; ++i) collect();
  MPI_Barrier(MPI_COMM_WORLD);
  const double began = MPI_Wtime();
  for (int i = 0; i < rounds; ++i) collect();
  MPI_Barrier(MPI_COMM_WORLD);  // A root may be rounds ahead.
  const double us = (MPI_Wtime() - began) * 1e6 / rounds;
  if (rank == 0) std::printf("%.3f\n", us);
  MPI_Finalize();
  return 0;
}
