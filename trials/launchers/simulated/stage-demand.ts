/**
 * What a visit demands of a stage, learned from the loads of pipelines.
 *
 * Every trial of a pipeline measures all its stages, each at one configuration. The CPU time of a
 * visit does not depend on the number of cores or replicas, and the costs of a batch not on its
 * largest size, so that one trial tells about many configurations. Other parameters of the server
 * are interpolated between those that trials had.
 */
import { Matrix, solve } from 'ml-matrix'
import { mean, quantile, sum } from 'simple-statistics'
import { configurationKey } from '../../../search/space/space.ts'
import type { Configuration, Parameter } from '../../../search/types.ts'
import { computeVisitRatios, type Pipeline } from '../../pipeline/pipeline.ts'
import { findStage, replicasParameter } from '../../pipeline/stage-configuration.ts'
import type { FinishedTrial, StageLoad } from '../../types.ts'
import { computeVisitMean, countVisits, fitBatchCosts } from './batch-costs.ts'
import { isBatchSize, readMaxBatch, type StageDemand } from './stage-queue.ts'

/** Parameters that do not change the demand: they scale resources, or bound the batch. */
const isNeutral = (name: string): boolean =>
  name === 'cpuCores' || name === replicasParameter || isBatchSize(name)
/** Share of the loads, the lowest, whose latency counts as that without load. Assumed. */
const unloadedShare = 0.2

interface StageTrial {
  readonly configuration: Configuration
  readonly loads: readonly StageLoad[]
}

/**
 * Learns the demands of a stage; undefined for configurations of which the trials tell too little.
 * @param parameters of one replica, by their own names
 */
export function learnStageDemand(
  stage: string,
  parameters: readonly Parameter[],
  trials: readonly FinishedTrial[],
): (configuration: Configuration) => StageDemand | undefined {
  const settingParameters = parameters.filter(({ name }) => !isNeutral(name))
  const selectSetting = (configuration: Configuration): Configuration =>
    Object.fromEntries(settingParameters.map(({ name }) => [name, configuration[name]!]))
  const bySetting = new Map<string, StageTrial[]>()
  for (const trial of trials.flatMap((one) => findStageTrial(one, stage))) {
    const key = configurationKey(selectSetting(trial.configuration))
    bySetting.set(key, [...(bySetting.get(key) ?? []), trial])
  }
  const tried = [...bySetting.values()]
  const demands = new Map([...bySetting].map(([key, group]) => [key, summariseDemand(group)]))
  const settings = tried.map(([first]) => selectSetting(first!.configuration))
  const interpolate = createInterpolation(settingParameters, settings, [...demands.values()])
  // Batches of one do not tell how much larger ones save.
  const hasBatched = tried.flat().some((one) => readMaxBatch(one.configuration) > 1)
  return (configuration) => {
    if (readMaxBatch(configuration) > 1 && !hasBatched) return undefined
    const setting = selectSetting(configuration)
    return demands.get(configurationKey(setting)) ?? interpolate(setting)
  }
}

function findStageTrial(trial: FinishedTrial, stage: string): StageTrial[] {
  const found = findStage(trial.configuration, stage)
  const loads = trial.usage?.stages?.find((one) => one.stage === stage)?.loads ?? []
  return found === undefined || loads.length === 0
    ? []
    : [{ configuration: found.configuration, loads }]
}

function summariseDemand(trials: readonly StageTrial[]): StageDemand {
  const loads = trials.flatMap(({ configuration, loads }) =>
    loads.map((load) => ({ configuration, load })),
  )
  const cpuMs = computeVisitMean(loads, (load) => load.cpuMs)
  const usedBy = computeVisitMean(loads, (load) => load.gpuMs) > cpuMs ? 'gpu' : 'cpu'
  const costs = fitBatchCosts(loads, usedBy)
  const besideMs = usedBy === 'gpu' ? cpuMs : 0
  const lowRps = quantile(
    loads.map(({ load }) => load.visitRps),
    unloadedShare,
  )
  const low = loads.filter(({ load }) => load.visitRps <= lowRps)
  const unloadedMs = mean(low.map(({ load }) => load.meanMs))
  const ownMs = besideMs + costs.fixedMs + costs.perItemMs
  return { ...costs, usedBy, cpuMs: besideMs, overheadMs: Math.max(0, unloadedMs - ownMs) }
}

/** Prior sd of the change of ln(demand) over the range of a parameter, and sd of its error. Assumed. */
const slopeSd = 0.7
const errorSd = 0.03

/**
 * Interpolates ln(demand) over the settings by ridge regression on their parameters. Undefined for a
 * setting with a name that was not tried, or with a number of which only one value was tried.
 */
function createInterpolation(
  parameters: readonly Parameter[],
  settings: readonly Configuration[],
  demands: readonly StageDemand[],
): (setting: Configuration) => StageDemand | undefined {
  const [first] = demands
  if (first === undefined) return () => undefined
  const encode = (setting: Configuration): number[] =>
    parameters.flatMap((parameter) => encodeValue(parameter, setting[parameter.name]!))
  const rows = settings.map(encode)
  const fit = (read: (demand: StageDemand) => number) => fitRidge(rows, demands.map(read))
  const predict = {
    fixedMs: fit(({ fixedMs }) => fixedMs),
    perItemMs: fit(({ perItemMs }) => perItemMs),
    cpuMs: fit(({ cpuMs }) => cpuMs),
    overheadMs: fit(({ overheadMs }) => overheadMs),
  }
  const isCovered = (setting: Configuration): boolean =>
    parameters.every(({ name, kind }) => {
      const tried = new Set(settings.map((one) => one[name]))
      return tried.has(setting[name]) || (kind !== 'categorical' && tried.size > 1)
    })
  return (setting) => {
    if (!isCovered(setting)) return undefined
    const row = encode(setting)
    return {
      usedBy: first.usedBy,
      fixedMs: predict.fixedMs(row),
      perItemMs: predict.perItemMs(row),
      cpuMs: predict.cpuMs(row),
      overheadMs: predict.overheadMs(row),
    }
  }
}

/** A number by its place in the range, on the parameter's scale; a name as one of several. */
function encodeValue(parameter: Parameter, value: number | string): number[] {
  if (parameter.kind === 'categorical')
    return parameter.values.map((one) => (one === value ? 1 : 0))
  const [min, max] =
    parameter.kind === 'ordinal'
      ? [Math.min(...parameter.values), Math.max(...parameter.values)]
      : [parameter.min, parameter.max]
  const isLog = parameter.scale === 'log' && min > 0
  const place = (x: number) => (isLog ? Math.log(x) : x)
  return max > min ? [(place(Number(value)) - place(min)) / (place(max) - place(min)) - 0.5] : []
}

/** Smaller times are as good as none: their logarithm would dominate. */
const minMs = 1e-3

/** Fits ln(time); the mean of the logarithms is the intercept. */
function fitRidge(
  rows: readonly (readonly number[])[],
  timesMs: readonly number[],
): (row: readonly number[]) => number {
  const logs = timesMs.map((ms) => Math.log(Math.max(minMs, ms)))
  const meanLog = sum(logs) / logs.length
  const computeCovariance = (a: readonly number[], b: readonly number[]): number =>
    slopeSd ** 2 * (1 + sum(a.map((x, i) => x * b[i]!)))
  const covariances = rows.map((a, i) =>
    rows.map((b, j) => computeCovariance(a, b) + (i === j ? errorSd ** 2 : 0)),
  )
  const weights = solve(
    new Matrix(covariances),
    Matrix.columnVector(logs.map((log) => log - meanLog)),
  ).to1DArray()
  return (row) => {
    const log = meanLog + sum(rows.map((one, i) => weights[i]! * computeCovariance(row, one)))
    return log <= Math.log(minMs) ? 0 : Math.exp(log)
  }
}

/** Visits under way at the ends of a load make counts inexact. Assumed. */
const minVisitError = 0.02

/** The pipeline with the numbers of calls that its trials counted, where they did. */
export function applyMeasuredVisits(
  pipeline: Pipeline,
  trials: readonly FinishedTrial[],
): Pipeline {
  const declared = computeVisitRatios(pipeline)
  const factors = new Map(
    pipeline.stages.map(({ name }) => {
      const loads = trials.flatMap((trial) => findStageTrial(trial, name)).flatMap((t) => t.loads)
      const requests = sum(loads.map((load) => countVisits(load) / load.visits))
      const factor = requests > 0 ? sum(loads.map(countVisits)) / requests / declared.get(name)! : 1
      return [name, Math.abs(factor - 1) < minVisitError ? 1 : factor] as const
    }),
  )
  return {
    stages: pipeline.stages.map((stage) => ({
      ...stage,
      calls: stage.calls.map((call) => ({
        ...call,
        ratio: (call.ratio * factors.get(call.stage)!) / factors.get(stage.name)!,
      })),
    })),
  }
}
