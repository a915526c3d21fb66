/**
 * Allocatable resources of nodes: the instance's cores and memory without the reservations of a
 * managed cluster.
 */

export interface CoresAndMemory {
  readonly vcpus: number
  readonly memoryGiB: number
}

/** Pods on a node, by which EKS and AKS compute the reserved memory: the default of Kubernetes. */
const maxPods = 110
/** Memory below which every one of them evicts pods, GiB. */
const evictionGiB = 100 / 1024

/** Sum of a share of each tier up to its bound. */
const computeTieredShare =
  (tiers: readonly (readonly [upTo: number, share: number])[]) =>
  (all: number): number => {
    let [kept, from] = [0, 0]
    for (const [upTo, share] of tiers) {
      kept += share * Math.max(0, Math.min(all, upTo) - from)
      from = upTo
    }
    return kept
  }

/** GKE, "Plan GKE Standard node sizes"; EKS reserves the same cores (`bootstrap.sh`, nodeadm). */
const tieredCores = computeTieredShare([
  [1, 0.06],
  [2, 0.01],
  [4, 0.005],
  [Number.POSITIVE_INFINITY, 0.0025],
])
const tieredGiB = computeTieredShare([
  [4, 0.25],
  [8, 0.2],
  [16, 0.1],
  [128, 0.06],
  [Number.POSITIVE_INFINITY, 0.02],
])

/** AKS, "Node resource reservations", its table of cores in between as straight lines. */
const aksCores = computeTieredShare([
  [1, 0.06],
  [2, 0.04],
  [4, 0.02],
  [Number.POSITIVE_INFINITY, 0.01],
])

/**
 * Reservations of an instance, by managed cluster; without requests of DaemonSets, and memory used
 * by firmware and kernel.
 */
export const reservedByCluster = {
  gke: ({ vcpus, memoryGiB }: CoresAndMemory): CoresAndMemory => ({
    vcpus: tieredCores(vcpus),
    memoryGiB: tieredGiB(memoryGiB) + evictionGiB,
  }),
  eks: ({ vcpus }: CoresAndMemory): CoresAndMemory => ({
    vcpus: tieredCores(vcpus),
    memoryGiB: (11 * maxPods + 255) / 1024 + evictionGiB,
  }),
  aks: ({ vcpus, memoryGiB }: CoresAndMemory): CoresAndMemory => ({
    vcpus: aksCores(vcpus),
    memoryGiB: Math.min((20 * maxPods + 50) / 1024, memoryGiB / 4) + evictionGiB,
  }),
} as const

/**
 * Allocatable cores and memory of an instance.
 * @param instance `kept`: the node's reservation; absent: none
 */
export const computeAllocatable = ({
  vcpus,
  memoryGiB,
  kept,
}: CoresAndMemory & { readonly kept?: CoresAndMemory }): CoresAndMemory => ({
  vcpus: vcpus - (kept?.vcpus ?? 0),
  memoryGiB: memoryGiB - (kept?.memoryGiB ?? 0),
})
