/**
 * How much slower models get beside others on one GPU under MPS, in the form of iGniter (Xu et al.,
 * TPDS 2022): time on the multiprocessors grows with what the neighbours take of cache and power,
 * and every kernel waits longer to be scheduled the more processes there are:
 *
 *   slowdown = 1 + pull · Σ shares of the others + wait(processes) · kernels / latency.
 *
 * Cache and power are one term here: of a model that was not profiled neither is known. What no
 * pair was measured for is assumed, and planned for at its upper end.
 */
import { standardDeviation } from 'simple-statistics'
import { mpsPull } from '../../trials/devices/mps-pull.ts'

/** A replica beside others: its part of the GPU, and how long its batch takes alone, ms. */
export interface Neighbour {
  readonly model: string
  readonly share: number
  readonly latencyMs: number
}

/** A replica's latency beside others over that alone, at the same rate. */
export interface MeasuredSlowdown {
  readonly kind: string
  readonly model: string
  readonly others: readonly string[]
  /**
   * Parts of the GPU that the others took, together: of one that was not always busy so much less.
   */
  readonly othersShare: number
  readonly slowdown: number
  /** The GPU was not there. */
  readonly emulated?: boolean
}

export interface Slowdown {
  readonly expected: number
  /** What is planned for: one in forty is worse, where pairs differ as those that are known. */
  readonly upper: number
  readonly how: 'assumed' | 'learned' | 'measured'
  /** What it was learned from or measured on was a GPU that was not there. */
  readonly emulated?: boolean
}

/**
 * The known pairs' mean, and how far models, neighbours and GPUs lie from it; other GPUs are taken
 * to be like those two.
 */
const assumed = mpsPull
/** Of a measured pair that is measured again, as a part of its slowdown. */
const repeatability = 0.02
const upperEnd = 2

/**
 * What a kernel waits for its turn beyond that of two processes, ms, by processes: as published
 * there, of VGG-19's.
 */
const waitMs = (processes: number): number => Math.max(0, 0.00475 * processes - 0.00902)
/** Of a model whose kernels nobody counted; ResNet-50 has 80, SSD 93. */
const kernels = 100

export type Interference = (kind: string, own: Neighbour, others: readonly Neighbour[]) => Slowdown

/** @param measured what is known; a pair that was measured says how it is itself, and of its kind of GPU what others are like */
export function interferenceOf(measured: readonly MeasuredSlowdown[] = []): Interference {
  const learnt = new Map<
    string,
    { readonly mean: number; readonly deviation: number; readonly emulated?: boolean }
  >()
  for (const kind of new Set(measured.map((one) => one.kind))) {
    const own = measured.filter((one) => one.kind === kind)
    learnt.set(kind, { ...learned(own.map(pullOf)), ...emulatedIn(own) })
  }
  return (kind, own, others) => {
    if (others.length === 0) return { expected: 1, upper: 1, how: 'assumed' }
    const share = others.reduce((sum, other) => sum + other.share, 0)
    const waits = (waitMs(1 + others.length) * kernels) / own.latencyMs
    const names = namesOf(others.map(({ model }) => model))
    const same = measured.filter(
      (one) => one.kind === kind && one.model === own.model && namesOf(one.others) === names,
    )
    if (same.length > 0) {
      const pull = Math.max(...same.map(pullOf))
      const expected = 1 + Math.max(0, pull) * share
      return {
        expected,
        upper: expected * (1 + upperEnd * repeatability),
        how: 'measured',
        ...emulatedIn(same),
      }
    }
    const known = learnt.get(kind)
    const { mean: pull, deviation } = known ?? assumed
    const at = (of: number) => 1 + Math.max(0, of) * share + waits
    return {
      expected: at(pull),
      upper: at(pull + upperEnd * deviation),
      how: known ? 'learned' : 'assumed',
      ...(known?.emulated && { emulated: true }),
    }
  }
}

const emulatedIn = (pairs: readonly MeasuredSlowdown[]) =>
  pairs.some(({ emulated }) => emulated) ? { emulated: true } : {}

const namesOf = (models: readonly string[]): string => [...models].sort().join('\n')

const pullOf = ({ slowdown, othersShare }: MeasuredSlowdown): number => (slowdown - 1) / othersShare

/**
 * Of pairs like those: the mean of a normal prior after these, pairs as far from it as those that
 * were assumed, or as these are where that is more.
 */
function learned(own: readonly number[]): { readonly mean: number; readonly deviation: number } {
  const between = Math.max(assumed.deviation, own.length > 2 ? standardDeviation([...own]) : 0) ** 2
  const precision = 1 / assumed.deviation ** 2 + own.length / between
  const center =
    (assumed.mean / assumed.deviation ** 2 + own.reduce((sum, pull) => sum + pull, 0) / between) /
    precision
  return { mean: center, deviation: Math.sqrt(between + 1 / precision) }
}
