/**
 * What a node of a managed cluster keeps of its instance for itself: what is left is all that pods
 * can ask for.
 */

export interface CoresAndMemory {
  readonly vcpus: number
  readonly memoryGiB: number
}

/** Pods that a node may hold, by which EKS and AKS reckon its memory: Kubernetes' own default. */
const mostPods = 110
/** Memory below which every one of them evicts pods, GiB. */
const evictionGiB = 100 / 1024

/** Of each further part up to a bound, a share is kept. */
const tiered =
  (tiers: readonly (readonly [upTo: number, share: number])[]) =>
  (all: number): number => {
    let [kept, from] = [0, 0]
    for (const [upTo, share] of tiers) {
      kept += share * Math.max(0, Math.min(all, upTo) - from)
      from = upTo
    }
    return kept
  }

/** GKE, "Plan GKE Standard node sizes"; EKS takes the same of cores (`bootstrap.sh`, nodeadm). */
const tieredCores = tiered([
  [1, 0.06],
  [2, 0.01],
  [4, 0.005],
  [Number.POSITIVE_INFINITY, 0.0025],
])
const tieredGiB = tiered([
  [4, 0.25],
  [8, 0.2],
  [16, 0.1],
  [128, 0.06],
  [Number.POSITIVE_INFINITY, 0.02],
])

/** AKS, "Node resource reservations", its table of cores in between as straight lines. */
const aksCores = tiered([
  [1, 0.06],
  [2, 0.04],
  [4, 0.02],
  [Number.POSITIVE_INFINITY, 0.01],
])

/**
 * By managed cluster, of an instance. Without what DaemonSets of the cluster ask for, and what the
 * machine's firmware and kernel take of the memory that is sold.
 */
export const keptBy = {
  gke: ({ vcpus, memoryGiB }: CoresAndMemory): CoresAndMemory => ({
    vcpus: tieredCores(vcpus),
    memoryGiB: tieredGiB(memoryGiB) + evictionGiB,
  }),
  eks: ({ vcpus }: CoresAndMemory): CoresAndMemory => ({
    vcpus: tieredCores(vcpus),
    memoryGiB: (11 * mostPods + 255) / 1024 + evictionGiB,
  }),
  aks: ({ vcpus, memoryGiB }: CoresAndMemory): CoresAndMemory => ({
    vcpus: aksCores(vcpus),
    memoryGiB: Math.min((20 * mostPods + 50) / 1024, memoryGiB / 4) + evictionGiB,
  }),
} as const

/** What pods can ask for on an instance. @param instance `kept`: by its node; absent: nothing */
export const leftOf = ({
  vcpus,
  memoryGiB,
  kept,
}: CoresAndMemory & { readonly kept?: CoresAndMemory }): CoresAndMemory => ({
  vcpus: vcpus - (kept?.vcpus ?? 0),
  memoryGiB: memoryGiB - (kept?.memoryGiB ?? 0),
})
