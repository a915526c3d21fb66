/**
 * Chooses the service discipline of a server: the declared one or, where nothing is declared,
 * workers of single requests or of batches. Where it does not fit, the queue model samples the
 * steps of the service log.
 */
import { mean, median, sum } from 'simple-statistics'
import { computeMeanThroughput } from '../../load/throughput.ts'
import type { DeclaredDiscipline } from '../../model/declared-discipline.ts'
import type { LoadRun } from '../../model/load-run.ts'
import { computeBinomialCdf } from '../../statistics/percentile.ts'
import { compareSpeeds, computeStepSpeeds } from '../changes/speed-change.ts'
import { joinServiceLogs, type ObservedRun, type ServiceLog } from '../service-log/service-log.ts'
import { collectSojourns } from '../service-log/sojourns.ts'
import { evaluateLine, fitLine } from './bulk-service.ts'
import { doesContradict, type Fit, minServicesToCompare, testFit } from './goodness-of-fit.ts'
import type { CalibratedDiscipline, ServiceDiscipline } from './service-discipline.ts'
import {
  closeDeparturesShare,
  estimateDelay,
  estimateExcess,
  extractServiceTimes,
  type ServiceTimes,
} from './service-times.ts'

interface DisciplineInput {
  readonly windows: readonly ObservedRun[]
  /** Closed loops, which show the highest throughput. */
  readonly loops: readonly LoadRun[]
  /** Host interference slowed the loops: they show batches, but not how long services take. */
  readonly areLoopsDisturbed: boolean
  readonly declared: DeclaredDiscipline | undefined
  readonly unloadedMs: number
}

/** A discipline, or none, and whether it describes the server. */
export interface ChosenDiscipline {
  /** Undefined: the queue model samples the steps of the service log. */
  readonly discipline: CalibratedDiscipline | undefined
  /**
   * Significantly, neither a discipline nor one step at a time describes the server. Never for a
   * declared one: it departs from its discipline by work beside the batches or by a busy host, which
   * the steps of its log show.
   */
  readonly isMisfit: boolean
}

/** Chooses the discipline from open windows, and adds the closed loops that it explains. */
export function chooseDiscipline(input: DisciplineInput): ChosenDiscipline {
  const { discipline, isMisfit } = chooseByWindows(input)
  if (discipline === undefined || input.areLoopsDisturbed) return { discipline, isMisfit }
  const withLoops = addLoops(discipline, input)
  // Too few workers can explain windows of nearly full batches, but not a loop of other batches.
  const isRefuted =
    input.declared === undefined && input.loops.length > 0 && withLoops.loops.length === 0
  return isRefuted ? { discipline: undefined, isMisfit: true } : { discipline: withLoops, isMisfit }
}

/**
 * Adds the latest closed loops whose services took as long as those of the windows, from the last
 * one backwards until one differs. They show rare slow services, of which windows have few.
 */
function addLoops(
  discipline: CalibratedDiscipline,
  { loops, unloadedMs }: DisciplineInput,
): CalibratedDiscipline {
  const similar: ServiceLog[] = []
  for (const run of loops.toReversed()) {
    const services = extractServiceTimes({ run, disturbed: [] }, discipline, unloadedMs)
    const { windows } = discipline
    if (
      doesContradict([services]) ||
      compareSpeeds(windows, services.log).changed ||
      hasMoreLongServices(windows, services.log)
    )
      break
    similar.unshift(services.log)
  }
  return { ...discipline, loops: similar }
}

/** A service is long from this multiple of its typical duration. */
const minLongFactor = 1.5
/** Significance level at which a loop has more long services than windows. */
const maxMoreLongPValue = 0.01

/**
 * Whether a loop had significantly more long services than the windows, as while a cache was still
 * filling. Consecutive long services count once, as one outage.
 */
function hasMoreLongServices(windows: readonly ServiceLog[], loop: ServiceLog): boolean {
  const speeds = computeStepSpeeds([...windows, loop])
  const isLong = (speed: number | undefined) => speed !== undefined && speed < 1 / minLongFactor
  const countLong = (stepSpeeds: readonly number[]) =>
    stepSpeeds.filter((speed, i) => isLong(speed) && !isLong(stepSpeeds[i - 1])).length
  const counts = speeds.map(countLong)
  const longInWindows = sum(counts.slice(0, -1))
  // Outages occur by service or by time; the clock that explains the counts better decides.
  const windowShares = [countServices, sumDurationsMs].map((measureExposure) => {
    const windowExposure = sum(windows.map(measureExposure))
    return windowExposure / (windowExposure + measureExposure(loop))
  })
  const pValues = windowShares.map((share) =>
    computeBinomialCdf(longInWindows, longInWindows + counts.at(-1)!, share),
  )
  return Math.max(...pValues) < maxMoreLongPValue
}

const countServices = ({ tookMs }: ServiceLog): number => tookMs.length
const sumDurationsMs = ({ tookMs }: ServiceLog): number => sum([...tookMs])

function chooseByWindows(input: DisciplineInput): ChosenDiscipline {
  const { windows, declared, unloadedMs } = input
  if (declared !== undefined) {
    const { discipline, fit } = calibrateOverhead(windows, declared, unloadedMs)
    return { discipline: fit.fits === false ? undefined : discipline, isMisfit: false }
  }
  return isOutOfOrder(joinServiceLogs(windows.map(({ log }) => log)))
    ? { discipline: undefined, isMisfit: false }
    : identifyWorkers(input)
}

/** A discipline with the services that it implies for each window, and their fit. */
interface Calibration {
  readonly discipline: CalibratedDiscipline
  readonly services: readonly ServiceTimes[]
  readonly fit: Fit
}

/** Extracts the services that a discipline implies, and tests its fit. */
function calibrate(
  windows: readonly ObservedRun[],
  discipline: ServiceDiscipline,
  unloadedMs: number,
): Calibration {
  const services = windows.map((window) => extractServiceTimes(window, discipline, unloadedMs))
  return {
    discipline: { ...discipline, windows: services.map(({ log }) => log), loops: [] },
    services,
    fit: testFit(services),
  }
}

/** Bounds of a plausible overhead, as shares of a typical service. Assumed. */
const minOverheadShare = 0.02
const maxOverheadShare = 0.35

/**
 * Calibrates a discipline without an overhead, or with an estimated one where it does not fit.
 */
function calibrateOverhead(
  windows: readonly ObservedRun[],
  declared: DeclaredDiscipline,
  unloadedMs: number,
): Calibration {
  const discipline = { ...declared, overheadMs: 0 }
  const withoutOverhead = calibrate(windows, discipline, unloadedMs)
  if (withoutOverhead.fit.fits !== false) return withoutOverhead
  const overheadMs = estimateExcess(withoutOverhead.services, minServicesToCompare)
  const typicalMs = median(withoutOverhead.services.flatMap(({ log }) => log.tookMs))
  return overheadMs > minOverheadShare * typicalMs && overheadMs < maxOverheadShare * typicalMs
    ? calibrate(windows, { ...discipline, overheadMs }, unloadedMs)
    : withoutOverhead
}

/**
 * Calibrates workers that take batches at once or, where that does not fit, after a delay from the
 * arrival of the oldest request or from a free worker. An unloaded request waits for the delay and
 * is then served, so durations of batches refine the delay that waits show.
 */
function calibrateBatches(
  windows: readonly ObservedRun[],
  workers: number,
  maxBatch: number,
  unloadedMs: number,
): Calibration {
  const discipline = { workers, maxBatch, maxDelayMs: 0, overheadMs: 0 }
  const undelayed = calibrate(windows, discipline, unloadedMs)
  if (undelayed.fit.fits !== false) return undelayed
  const candidates = (['arrival', 'free worker'] as const).flatMap((delayFrom) => {
    const calibrateDelay = (maxDelayMs: number) =>
      calibrate(windows, { ...discipline, delayFrom, maxDelayMs }, unloadedMs)
    // The delay may be most of the unloaded latency, so departures of one batch have to be close.
    const { services } = calibrate(
      windows,
      { ...discipline, delayFrom },
      closeDeparturesShare * unloadedMs,
    )
    const byWaits = calibrateDelay(estimateDelay(services))
    const unloadedServiceMs = evaluateLine(fitLine(joinServiceLogs(byWaits.discipline.windows)), 1)
    return [calibrateDelay(Math.max(0, unloadedMs - unloadedServiceMs)), byWaits]
  })
  return findMinBy(candidates, rankByMisfit) ?? undelayed
}

/** Ranks calibrations that do not fit last, and the others by their number of contradictions. */
const rankByMisfit = ({ fit, services }: Calibration): number =>
  fit.fits === false
    ? Number.POSITIVE_INFINITY
    : sum(services.map(({ contradicting }) => contradicting))

/**
 * Whether batches fit. If too few services waited for a test, or too few did not, a delay fits if
 * enough requests joined batches during it or came after it.
 */
const doBatchesFit = ({ fit, services, discipline }: Calibration): boolean =>
  fit.fits ??
  (discipline.maxDelayMs === 0 ||
    sum(services.map(({ waits }) => waits.joinedMs.length + waits.missedMs.length)) >=
      minServicesToCompare)

/** A server counts as out of order from this share of steps in which a request overtakes. */
const minOvertakingShare = 0.02

/**
 * Whether a single worker serves requests out of order, each in a time that does not depend on the
 * queue. Its service log holds those steps and their order, and workers would misread them.
 */
function isOutOfOrder(log: ServiceLog): boolean {
  const overtaking = log.rank.filter((rank) => rank > 0).length
  if (overtaking <= minOvertakingShare * log.rank.length) return false
  if (log.departed.some((departed) => departed > 1)) return false
  const steps = {
    log: { ...log, present: log.departed },
    systemSizeAtArrival: log.present.map((present) => present - 1),
    waited: log.present.map((present) => present > 1),
    waits: { joinedMs: [], missedMs: [] },
    requests: log.present.length,
    contradicting: 0,
  }
  return testFit([steps]).fits === true
}

/** Workers of single requests are tried up to this number. Assumed. */
const maxWorkers = 64
/** Numbers of workers are tried within this factor of the estimated number of busy workers. */
const workerSearchFactor = 1.6
/**
 * Minimum reduction of the misfit by an overhead. Too few workers look like the right number with a
 * large overhead.
 */
const overheadMisfitPenalty = 4

/** Workers that serve batches are tried up to this number. */
const maxBatchWorkers = 6

/**
 * Identifies workers in arrival order. Where closed loops show batches, it is the smallest number
 * whose batches fit. Else, of the numbers that fit, it is the one with the smallest misfit. None if
 * the server was too seldom busy to decide.
 */
function identifyWorkers(input: DisciplineInput): ChosenDiscipline {
  const { windows, loops, unloadedMs } = input
  const departures = countSimultaneous(loops, unloadedMs)
  for (const workers of listRange(1, maxBatchWorkers))
    for (const maxBatch of listRange(1, workers).map((batches) => departures / batches)) {
      if (maxBatch <= 1 || !Number.isInteger(maxBatch)) continue
      const calibration = calibrateBatches(windows, workers, maxBatch, unloadedMs)
      if (!doBatchesFit(calibration)) continue
      return { discipline: calibration.discipline, isMisfit: false }
    }
  const busyWorkers = estimateMeanBusy(input)
  const minWorkers = Math.max(1, Math.floor(busyWorkers / workerSearchFactor))
  const candidates = listRange(
    minWorkers,
    Math.min(maxWorkers, workerSearchFactor * busyWorkers + 1),
  ).map((workers) =>
    calibrateOverhead(windows, { workers, maxBatch: 1, maxDelayMs: 0 }, unloadedMs),
  )
  const penalise = ({ fit, discipline }: Calibration) =>
    fit.misfit + (discipline.overheadMs > 0 ? overheadMisfitPenalty : 0)
  const fitting = candidates.filter(({ fit }) => fit.fits)
  return {
    discipline: findMinBy(fitting, penalise)?.discipline,
    isMisfit: candidates.every(({ fit }) => fit.fits === false),
  }
}

/** Departures within this share of the unloaded latency are simultaneous. */
const simultaneousShare = 0.005
/**
 * Smallest share of the requests of closed loops that full batches serve. It is 38 % and more on the
 * servers with batches of `npm run bench:profiler -- 1 '^drawn:'`, 24 % on one with two stages.
 */
const minFullBatchShare = 1 / 3

/**
 * Counts the requests that depart simultaneously in closed loops: of all numbers, the one that most
 * requests are in. It is a full batch, or several of them. 1 where batches serve too few.
 */
function countSimultaneous(loops: readonly LoadRun[], unloadedMs: number): number {
  const requests = new Map<number, number>()
  for (const loop of loops) {
    const { departedMs } = collectSojourns(loop)
    for (let from = 0, i = 1; i <= departedMs.length; i++) {
      // Behind the last departure, the difference is NaN, which also ends a batch.
      if (Math.abs(departedMs[i]! - departedMs[i - 1]!) <= simultaneousShare * unloadedMs) continue
      requests.set(i - from, (requests.get(i - from) ?? 0) + i - from)
      from = i
    }
  }
  const [size, departed] = [...requests].reduce((a, b) => (b[1] > a[1] ? b : a), [1, 0])
  return departed < minFullBatchShare * sum([...requests.values()]) ? 1 : size
}

const findMinBy = <T>(values: readonly T[], rank: (value: T) => number): T | undefined =>
  values.reduce<T | undefined>(
    (best, value) => (best === undefined || rank(value) < rank(best) ? value : best),
    undefined,
  )

/** Lists the whole numbers from one to another; none for NaN. */
const listRange = (from: number, to: number): number[] =>
  Array.from({ length: Math.max(0, Math.floor(to) - from + 1) }, (_, i) => from + i)

/**
 * Estimates the mean number of busy workers at the highest observed throughput, by Little's law.
 * Service times are the latencies of the tenth of requests with the fewest others in the system at
 * their arrival. NaN without answers.
 */
function estimateMeanBusy({ windows, loops }: DisciplineInput): number {
  const openRuns = windows.map(({ run }) => run)
  const maxRps = [...openRuns, ...loops].reduce(
    (highest, run) => Math.max(highest, computeMeanThroughput(run)),
    0,
  )
  const answers = openRuns.flatMap((run) => {
    const { arrivedMs, departedMs, systemSizeAtArrival } = collectSojourns(run)
    return Array.from(arrivedMs, (atMs, i) => ({
      latencyMs: departedMs[i]! - atMs,
      systemSize: systemSizeAtArrival[i]!,
    }))
  })
  const ascending = answers.map(({ systemSize }) => systemSize).sort((a, b) => a - b)
  const maxSystemSize = ascending[Math.floor(answers.length / 10)]!
  const unqueuedMs = answers.flatMap(({ latencyMs, systemSize }) =>
    systemSize <= maxSystemSize ? [latencyMs] : [],
  )
  return unqueuedMs.length === 0 ? Number.NaN : (maxRps * mean(unqueuedMs)) / 1000
}
