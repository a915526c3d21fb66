/**
 * What launches tell of the GPU memory that a server needs: MiB = processes × (fixed + per item ×
 * batch), both amounts unknown beforehand.
 */

import { cdf } from '../../search/gp/normal.ts'
import { configurationKeyWithout } from '../../search/space/space.ts'
import type { Configuration } from '../../search/types.ts'
import type { Gpu } from '../../trials/devices/catalogue.ts'
import { DeviceModelError } from '../../trials/devices/device-model-error.ts'
import { grouped } from '../../trials/grouped.ts'
import { resourcesOf, servingParametersOf } from '../../trials/resources.ts'

/** A launch, and whether GPU memory ended it. */
interface MemoryReading {
  readonly configuration: Configuration
  readonly lacked: boolean
}

/**
 * Of one process, MiB, as logarithms: a context with its libraries and some weights; what a picture
 * or a text keeps. Wide, for servers differ by a factor.
 */
const fixedPrior = { mean: Math.log(1500), sd: 0.8 }
const perItemPrior = { mean: Math.log(30), sd: 2 }
/** A launch's own need beside the line, as a standard deviation of its logarithm. */
const noise = 0.06
/**
 * P(a launch lacked memory that others on the card had taken); what served had enough for certain.
 */
const byOthers = 0.02
/** Standard normals of a grid over both amounts. */
const grid = Array.from({ length: 41 }, (_, i) => -3 + (6 * i) / 40)

/** Read by the line; the other settings must be the same for one launch to tell of another. */
const onTheLine: ReadonlySet<string> = new Set([
  'gpu',
  'gpuMemoryPercent',
  'migProfile',
  'batchSize',
  'instances',
  'cpuCores',
  'memoryMiB',
  'maxDelayMs',
  'queueLimit',
])

/**
 * P(the GPU memory suffices) of a configuration: 1 where no launch with the same other settings
 * lacked any, or where no GPU is held.
 * @param readings launches that served and launches that GPU memory ended
 */
export function memoryBelief(
  readings: readonly MemoryReading[],
  ownGpus: readonly Gpu[] = [],
): (configuration: Configuration) => number {
  const groups = grouped(readings, ({ configuration }) => othersOf(configuration))
  const posteriors = new Map(
    [...groups].flatMap(([key, own]) =>
      own.some((r) => r.lacked) ? [[key, posteriorOf(own, ownGpus)]] : [],
    ),
  )
  const beliefs = new Map<string, number>()
  return (configuration) => {
    const others = othersOf(configuration)
    const posterior = posteriors.get(others)
    const held = posterior && heldBy(configuration, ownGpus)
    if (!held) return 1
    const key = `${others} ${Object.values(held)}`
    const belief =
      beliefs.get(key) ?? posterior.reduce((sum, at) => sum + at.weight * suffices(at, held), 0)
    beliefs.set(key, belief)
    return belief
  }
}

const othersOf = (configuration: Configuration): string =>
  configurationKeyWithout(configuration, onTheLine)

interface Held {
  readonly processes: number
  readonly batch: number
  readonly availableMiB: number
}

/** Undefined without a GPU, and for what cannot be read. */
function heldBy(configuration: Configuration, ownGpus: readonly Gpu[]): Held | undefined {
  try {
    const { gpuMemoryMiB } = resourcesOf(configuration, {}, ownGpus)
    const { instances, batchSize } = servingParametersOf(configuration)
    return gpuMemoryMiB === undefined
      ? undefined
      : { processes: instances, batch: batchSize, availableMiB: gpuMemoryMiB }
  } catch (error) {
    if (error instanceof DeviceModelError) return undefined
    throw error
  }
}

interface Line {
  readonly fixedMiB: number
  readonly perItemMiB: number
  readonly weight: number
}

const suffices = (
  { fixedMiB, perItemMiB }: Line,
  { processes, batch, availableMiB }: Held,
): number => cdf(Math.log(availableMiB / (processes * (fixedMiB + perItemMiB * batch))) / noise)

function posteriorOf(readings: readonly MemoryReading[], ownGpus: readonly Gpu[]): readonly Line[] {
  const known = readings.flatMap(({ configuration, lacked }) => {
    const held = heldBy(configuration, ownGpus)
    return held ? [{ held, lacked }] : []
  })
  const lines = grid.flatMap((a) =>
    grid.map((b) => {
      const line = {
        fixedMiB: Math.exp(fixedPrior.mean + fixedPrior.sd * a),
        perItemMiB: Math.exp(perItemPrior.mean + perItemPrior.sd * b),
      }
      const likelihood = known.reduce((product, { held, lacked }) => {
        const enough = suffices({ ...line, weight: 1 }, held)
        return (
          product * (lacked ? byOthers + (1 - byOthers) * (1 - enough) : Math.max(1e-6, enough))
        )
      }, 1)
      return { ...line, weight: Math.exp(-(a ** 2 + b ** 2) / 2) * likelihood }
    }),
  )
  const total = lines.reduce((sum, { weight }) => sum + weight, 0)
  return lines.map((line) => ({ ...line, weight: line.weight / total }))
}
