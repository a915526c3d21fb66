/**
 * Manifests of GPUs shared by MPS: the pods on a GPU share one claim by dynamic resource allocation.
 * The driver runs an MPS daemon for it. CUDA's own variables limit each container to its part
 * (NVIDIA MPS guide, "Environment Variables").
 */
import { createMpsClaim } from '../../trials/launchers/kubernetes/gpus/dra.ts'
import { toDnsLabel } from '../specs/create-serving.ts'
import { formatYaml } from '../specs/manifest.ts'
import { selectGpus } from '../specs/scheduling.ts'
import type { Serving } from '../specs/serving.ts'
import type { GpuKind, PackedGpu } from './packing.ts'
import { formatReplicaKey, type Placement } from './placements.ts'

/** Replicas on one shared GPU. */
export interface SharedPlacement extends Placement {
  readonly claim: string
  /**
   * Limit of each replica: the GPU's memory in proportion to what each needs. A limit equal to the
   * measured use would fail the next allocation.
   */
  readonly memoryMiB: number
}

/** One placement for each model on each shared GPU, so that pods run where they were planned. */
export function placeOnSharedGpus(
  gpus: readonly PackedGpu[],
  placements: readonly Placement[],
  kinds: readonly GpuKind[],
): SharedPlacement[] {
  const sharing = gpus.filter(({ slots }) =>
    slots.some(({ segment }) => segment?.share !== undefined),
  )
  return sharing.flatMap(({ kind, slots }, i) => {
    const claim = toDnsLabel(`shared-${i + 1}-${kind}`)
    const neededMiB = slots.reduce((sum, { segment }) => sum + (segment?.memoryMiB ?? 0), 0)
    const gpuMiB = kinds.find(({ name }) => name === kind)?.mps?.memoryMiB ?? neededMiB
    return placements
      .map((planned): SharedPlacement => {
        const slotsHere = slots.filter(
          ({ model, segment }) =>
            model === planned.model &&
            segment &&
            formatReplicaKey(segment) === formatReplicaKey(planned.segment),
        )
        const { byHour: _, ...placement } = planned
        const memoryMiB = Math.floor((gpuMiB * (planned.segment.memoryMiB ?? 0)) / neededMiB)
        return {
          ...placement,
          replicas: slotsHere.length,
          share: (planned.share * slotsHere.length) / planned.replicas,
          claim,
          memoryMiB,
        }
      })
      .filter(({ segment: { share }, replicas }) => share !== undefined && replicas > 0)
  })
}

/** @param servings on that GPU */
export function renderSharedGpu(name: string, servings: readonly Serving[]): string {
  const [first] = servings
  const { claim, needs } = selectGpus(first!.resources, 'dra', first!.dra)
  const notes = [
    `${servings.map((serving) => serving.name).join(', ')} share a ${first!.resources.gpu} by MPS.`,
    'Their pods share this claim: the driver gives them the same GPU and runs an MPS daemon for it. No other pod may use the claim.',
    'The MPS daemon serves one user at a time: run all containers as the same user.',
    ...needs.map(
      (need) =>
        `needs: ${need}, and its feature gate MPSSupport; the node must offer GPUs only through this driver`,
    ),
    'Validated against the official schemas; never run on a GPU.',
  ]
  return `${notes.map((note) => `# ${note}\n`).join('')}${formatYaml(createMpsClaim(claim!, { name }))}`
}
