/**
 * Models side by side under MPS, handed over: each GPU is one claim, by dynamic resource
 * allocation, which its pods have together; the driver runs an MPS daemon for it, and each
 * container says by CUDA's own variables to which part it is held (NVIDIA MPS guide, "Environment
 * Variables").
 */
import { mpsClaim } from '../../trials/launchers/kubernetes/dra.ts'
import { yamlOf } from '../specs/manifest.ts'
import { specGpus } from '../specs/pod-gpus.ts'
import { dnsLabel, type Serving } from '../specs/serving.ts'
import type { GpuKind, PackedGpu } from './packing.ts'
import type { Placement } from './placements.ts'
import { poolOf } from './rules.ts'

/** Replicas on one GPU of theirs and others. */
export interface SharedPlacement extends Placement {
  readonly claim: string
  /**
   * What each may take: its part of all that the GPU has, by what it needs. A limit that is no more
   * than what was seen of it would end it at its next workspace.
   */
  readonly memoryMiB: number
}

/**
 * One for each model on each GPU: a pod is to stand on the one where it was planned. @param
 * placements of all GPUs
 */
export function sharedPlacements(
  gpus: readonly PackedGpu[],
  placements: readonly Placement[],
  kinds: readonly GpuKind[],
): SharedPlacement[] {
  const sharing = gpus.filter(({ slots }) =>
    slots.some(({ segment }) => segment?.share !== undefined),
  )
  return sharing.flatMap(({ kind, slots }, i) => {
    const claim = dnsLabel(`shared-${i + 1}-${kind}`)
    const needed = slots.reduce((sum, { segment }) => sum + (segment?.memoryMiB ?? 0), 0)
    const room = kinds.find(({ name }) => name === kind)?.mps?.memoryMiB ?? needed
    return placements
      .map((all): SharedPlacement => {
        const here = slots.filter(
          ({ model, segment }) =>
            model === all.model && segment && poolOf(segment) === poolOf(all.segment),
        )
        const { byHour: _, ...placement } = all
        const memoryMiB = Math.floor((room * (all.segment.memoryMiB ?? 0)) / needed)
        return {
          ...placement,
          replicas: here.length,
          share: (all.share * here.length) / all.replicas,
          claim,
          memoryMiB,
        }
      })
      .filter(({ segment: { share }, replicas }) => share !== undefined && replicas > 0)
  })
}

/** @param servings of those that are on it */
export function sharedGpuYaml(name: string, servings: readonly Serving[]): string {
  const [first] = servings
  const { claim, needs } = specGpus(first!.resources, 'dra', first!.dra)
  const notes = [
    `${servings.map((serving) => serving.name).join(', ')} side by side on a ${first!.resources.gpu}, under MPS.`,
    'Their pods have this one claim: the driver gives them the same GPU and runs an MPS daemon for it. Nothing else may claim it.',
    'That daemon serves one user at a time: their containers have to run as the same one.',
    ...needs.map(
      (need) => `needs: ${need}, and its gate MPSSupport; its node gives GPUs by that alone`,
    ),
    'Assumed, not measured: nobody has tried this with a GPU here.',
  ]
  return `${notes.map((note) => `# ${note}\n`).join('')}${yamlOf(mpsClaim(claim!, { name }))}`
}
