/** What one replica holds beside GPUs, and how long it may take to start: from measurements of what is deployed, never below what a real start needs. */
import type { Configuration } from '../../search/types.ts'
import type { MeasuredWith } from '../../trials/measured-with.ts'
import type { Resources } from '../../trials/resources.ts'
import type { Deployed } from '../figures.ts'
import { significant } from '../format.ts'

export interface Held {
  readonly cpuCores?: number
  readonly memoryMiB?: number
  /** Seconds until a replica must be ready. */
  readonly startupSeconds: number
  readonly sources: readonly { readonly value: string; readonly from: string }[]
}

interface Measured {
  readonly measured: MeasuredWith
  readonly launchSeconds?: number
  readonly nodeWaitSeconds?: number
  readonly peakRssMiB?: number
}

/** Over the measured peak: page cache, a longer life, larger requests than the payload's. */
const memoryMargin = 1.5
const leastMemoryMiB = 256
/**
 * The built-in predictor on CPU, largest batch 8: bert-base 1,502 MiB, resnet50 1,170 MiB, mobilenet 389 MiB, bert-tiny 246 MiB
 * (VmHWM of all its processes, one core): at most 1 GiB and three times the weights in 32 bits.
 */
const builtinMemoryMiB = (weightsMiB: number): number => 1024 + 3 * weightsMiB
/** Below this, a server under no load at all takes minutes to start. */
const leastCores = 0.5
/** A launch on a warm machine is no launch on a new node: its floor, and reading the weights at 200 MiB/s. */
const startFloorSeconds = 60
const unmeasuredStartSeconds = 300
const weightsMiBPerSecond = 200

/** @param holds whether the figures are those of what is deployed */
export function heldOf(
  { measured, launchSeconds, nodeWaitSeconds, peakRssMiB }: Measured,
  deployed: Deployed,
  holds: boolean,
  resources: Resources,
  configuration: Configuration,
): Held {
  const cpu = coresOf(measured, holds, resources, configuration)
  const memory = memoryOf({ measured, peakRssMiB }, deployed, holds, resources, configuration)
  const startup = startupOf(measured, holds ? { launchSeconds, nodeWaitSeconds } : {})
  return {
    ...(cpu.cores === undefined ? {} : { cpuCores: cpu.cores }),
    ...(memory.mib === undefined ? {} : { memoryMiB: memory.mib }),
    startupSeconds: startup.seconds,
    sources: [
      { value: cpu.cores === undefined ? 'no cores asked for' : `${cpu.cores} ${cpu.cores === 1 ? 'core' : 'cores'}`, from: cpu.from },
      { value: memory.mib === undefined ? 'no memory asked for' : `memory ${memory.mib} MiB`, from: memory.from },
      { value: `start within ${startup.seconds} s`, from: startup.from },
    ],
  }
}

function coresOf({ server }: MeasuredWith, holds: boolean, { cpuCores }: Resources, configuration: Configuration) {
  const tuned = 'cpuCores' in configuration
  if (!tuned && server === 'url') return { from: 'how many the server had is not known: set them yourself' }
  const cores = holds ? cpuCores : Math.max(cpuCores, leastCores)
  if (cores > cpuCores) return { cores, from: `${cpuCores} were tuned; a real start needs ${leastCores}` }
  return { cores, from: tuned ? 'tuned' : 'what each trial held' }
}

function memoryOf(
  { measured, peakRssMiB }: Measured,
  deployed: Deployed,
  holds: boolean,
  { memoryMiB }: Resources,
  configuration: Configuration,
) {
  if ('memoryMiB' in configuration) {
    const floor = holds ? 0 : floorMiB(measured, deployed)
    if (floor > memoryMiB) return { mib: floor, from: `${memoryMiB} MiB were tuned; a real start needs about ${floor} MiB` }
    return { mib: Math.ceil(memoryMiB), from: holds ? 'tuned' : 'tuned, with a server that was not this one' }
  }
  if (!holds || peakRssMiB === undefined || !(peakRssMiB > 0))
    return { from: 'not tuned, and not measured of what this deploys: set it yourself, once it has run' }
  const mib = Math.max(leastMemoryMiB, Math.ceil((memoryMargin * peakRssMiB) / 64) * 64)
  return { mib, from: `${memoryMargin} x the measured peak of ${significant(peakRssMiB)} MiB, at least ${leastMemoryMiB} MiB` }
}

const floorMiB = ({ weightsMiB = 0 }: MeasuredWith, { server }: Deployed): number =>
  server === 'builtin' ? Math.ceil(builtinMemoryMiB(weightsMiB) / 64) * 64 : leastMemoryMiB

function startupOf(
  { weightsMiB = 0 }: MeasuredWith,
  { launchSeconds, nodeWaitSeconds = 0 }: Pick<Measured, 'launchSeconds' | 'nodeWaitSeconds'>,
) {
  const reading = Math.ceil(weightsMiB / weightsMiBPerSecond)
  const more = reading > 0 ? ` + ${reading} s to read the weights` : ''
  if (launchSeconds === undefined || !(launchSeconds > 0))
    return {
      seconds: unmeasuredStartSeconds + reading,
      from: `the launch of what this deploys was not measured: ${unmeasuredStartSeconds} s${more}`,
    }
  const floor = startFloorSeconds + reading
  // No probe runs before there is a node.
  const without = nodeWaitSeconds < 1 ? '' : `; the ${significant(nodeWaitSeconds)} s that its pod waited for a node come before that`
  return {
    seconds: Math.max(floor, Math.ceil(3 * launchSeconds)),
    from: `three times the measured launch of ${significant(launchSeconds)} s, at least ${startFloorSeconds} s${more}${without}`,
  }
}
