// The names of cooperative groups for host code, where they stand in signatures of device functions only.
#pragma once
namespace cooperative_groups {
namespace __v1 {
struct thread_group {};
struct thread_block : thread_group {};
struct grid_group : thread_group {};
struct cluster_group : thread_group {};
struct coalesced_group : thread_group {};
template <unsigned Size, class Parent = void>
struct thread_block_tile : thread_group {};
template <unsigned Size = 0>
struct block_tile_memory {};
thread_block this_thread_block();
grid_group this_grid();
cluster_group this_cluster();
coalesced_group coalesced_threads();
template <class Group>
void sync(const Group&);
template <unsigned Size, class Group>
thread_block_tile<Size, Group> tiled_partition(const Group&);
template <class Group>
thread_group tiled_partition(const Group&, unsigned);
template <class T = void>
struct plus {};
template <class T = void>
struct less {};
template <class T = void>
struct greater {};
template <class T = void>
struct bit_and {};
template <class T = void>
struct bit_or {};
template <class T = void>
struct bit_xor {};
template <class Group, class T, class Operation>
T reduce(const Group&, T, Operation);
template <class Group, class... More>
void memcpy_async(const Group&, More...);
template <class Group>
void wait(const Group&);
}  // namespace __v1
using namespace __v1;
}  // namespace cooperative_groups
