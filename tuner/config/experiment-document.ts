/**
 * The effective experiment written back in the form of the experiment file: for the store, `tune
 * config`, and to be read again.
 */
import { isRecord } from '../../profiler/plain-record.ts'
import { getDemand, getMetric, getPriceBound } from '../../search/objective.ts'
import type { Parameter } from '../../search/types.ts'
import type { BuiltinTemplate } from '../../trials/launchers/template.ts'
import { describeDomain } from './default-space.ts'
import { joinPath, type Merged, showOrigin } from './layers.ts'
import { knownParameter } from './parameters.ts'
import { sendEntries } from './schema/output-schema.ts'
import { answerEntries } from './settings/answer-settings.ts'
import { containersOf, isOwnPredictor } from './settings/kubernetes-settings.ts'
import { metricEntries } from './settings/metric-settings.ts'
import { payloadEntries } from './settings/payload-settings.ts'
import { limitEntries, promptEntries } from './settings/prompt-settings.ts'
import { variantEntries } from './settings/variant-settings.ts'
import type { TraceFile } from './sources.ts'
import type { ConfigRow, Experiment, ExperimentDocument, Origin } from './types.ts'
import { formatDuration, formatPercentile, formatShare } from './units.ts'
import type { Path } from './yaml-file.ts'

/** JSON-safe; `undefined` entries are left out. Paths are absolute. */
export function documentOf(
  experiment: Omit<Experiment, 'document' | 'origins'>,
  trace?: TraceFile,
  lengthsPath?: string,
): ExperimentDocument {
  const { name, architecture, architecturePath, path, version } = experiment.model
  const { slo, objective, load, budget, stop, predictor } = experiment
  const demandRps = getDemand(objective)?.demandRps
  const bound = getPriceBound(objective)
  return compact({
    name: experiment.name,
    model: { name, architecture: architecturePath ?? architecture, path, version },
    slo: {
      percentile: formatPercentile(slo.percentile),
      limit: slo.limits ? undefined : formatDuration(slo.limitMs),
      ...limitEntries(slo, undefined),
      errorRate: formatShare(slo.maxErrorRate),
      metric: slo.metric,
    },
    objective: objective.kind,
    objectiveMetric: getMetric(objective),
    demand: demandRps === undefined ? undefined : `${demandRps} rps`,
    headroom: formatShare(experiment.headroom),
    maxPricePerHour: bound === undefined ? undefined : `$${bound}`,
    maxJoulesPerRequest: experiment.maxJoulesPerRequest,
    backend: experiment.backend,
    devices: experiment.devices,
    space:
      predictor.kind === 'url'
        ? undefined
        : Object.fromEntries(
            experiment.space.parameters.map((parameter) => [
              parameter.name,
              parameterEntry(parameter),
            ]),
          ),
    variants: variantEntries(experiment.variants),
    minQuality: experiment.minQuality,
    constraints:
      experiment.space.constraints.length > 0
        ? experiment.space.constraints.map((constraint) => constraint.text)
        : undefined,
    pin: Object.keys(experiment.pins).length > 0 ? { ...experiment.pins } : undefined,
    predictor: predictorEntry(experiment),
    kubernetes: experiment.kubernetes && { ...experiment.kubernetes },
    load: {
      arrivals: arrivalsEntry(load.arrivals, trace),
      payload: {
        ...payloadEntries(load.payload),
        ...(load.payload.kind === 'generated' &&
          load.payload.prompts &&
          promptEntries(load.payload.prompts, slo, lengthsPath)),
      },
      warmUp:
        load.warmUp &&
        compact({
          ...load.warmUp,
          payload:
            load.warmUp.payload?.kind === 'generated' ? undefined : load.warmUp.payload?.path,
        }),
      timeout: formatDuration(load.timeoutMs),
      trialTime: formatDuration(load.trialSeconds * 1000),
      confirmTime: formatDuration(load.confirmSeconds * 1000),
    },
    metrics: metricEntries(experiment.metrics),
    ...answerEntries(experiment.answers),
    budget: {
      maxTrials: budget.maxTrials,
      timeLimit:
        budget.timeLimitS === undefined ? undefined : formatDuration(budget.timeLimitS * 1000),
      cost: budget.maxCost === undefined ? undefined : `$${budget.maxCost}`,
    },
    stop: {
      tolerance: formatShare(stop.tolerance),
      certainty: formatShare(stop.certainty),
      yearlyBill: stop.yearlyBill === undefined ? undefined : `$${stop.yearlyBill}`,
    },
    parallel: experiment.parallel,
    seed: experiment.seed,
    sampler: experiment.sampler,
    history: experiment.history,
    calibration: experiment.calibration,
    gpuCatalogue: experiment.gpuCataloguePath,
    prices: experiment.pricesPath,
    db: experiment.dbPath,
    out: experiment.outDir,
    send: sendEntries(experiment.outputs),
    confirm: experiment.confirm,
  }) as ExperimentDocument
}

function parameterEntry(parameter: Parameter): unknown {
  const known = knownParameter(parameter.name)
  const said = {
    category: parameter.category === known?.category ? undefined : parameter.category,
    monotone: parameter.monotone === known?.monotone ? undefined : parameter.monotone,
    concurrency: parameter.concurrency === known?.concurrency ? undefined : parameter.concurrency,
    when: parameter.when?.text,
  }
  if (parameter.kind === 'categorical') {
    const kind =
      known?.names || parameter.values.some((value) => Number.isNaN(Number(value)))
        ? undefined
        : 'categorical'
    const features = parameter.name === 'gpu' ? undefined : parameter.features
    return shortest({ values: [...parameter.values], kind, features, ...said })
  }
  const scale = parameter.scale === (known?.scale ?? 'linear') ? undefined : parameter.scale
  if (parameter.kind === 'ordinal')
    return shortest({ values: [...parameter.values], scale, ...said })
  return compact({
    kind: parameter.kind,
    min: parameter.min,
    max: parameter.max,
    step: parameter.step,
    scale,
    ...said,
  })
}

function shortest(entry: { values: unknown[] } & Record<string, unknown>): unknown {
  const given = compact(entry)
  return Object.keys(given).length === 1 ? entry.values : given
}

function predictorEntry({ predictor }: Pick<Experiment, 'predictor'>): unknown {
  const readyTimeout =
    predictor.readyTimeoutS === undefined
      ? undefined
      : formatDuration(predictor.readyTimeoutS * 1000)
  const { kind, protocol } = predictor
  if (predictor.kind === 'builtin')
    return compact({
      kind,
      engine: predictor.engine,
      server: predictor.standsFor,
      protocol,
      acceptance: predictor.acceptance,
      kvTransfer: predictor.kvTransfer && transferEntry(predictor.kvTransfer),
      env: predictor.env,
      readyTimeout,
    })
  if (predictor.kind === 'imported') return { kind, from: [...predictor.from], protocol }
  const { path, signature, healthPath, body, contentType, form, headers } = predictor
  if (predictor.kind === 'url') {
    const { http2, tls, urls } = predictor
    const where =
      urls === undefined ? { url: predictor.url } : { urls: urls.map((one) => ({ ...one })) }
    const pair = tls?.certPath === undefined ? undefined : { cert: tls.certPath, key: tls.keyPath }
    const checks = {
      http2,
      ca: tls?.caPath,
      tls: pair,
      insecureSkipVerify: tls?.insecureSkipVerify,
    }
    return compact({
      kind,
      ...where,
      protocol,
      path,
      signature,
      healthPath,
      body,
      contentType,
      form,
      headers,
      ...checks,
      readyTimeout,
    })
  }
  const files = predictor.files?.length
    ? Object.fromEntries(predictor.files.map((file) => [file.path, file.template]))
    : undefined
  const { env, envNames, argFormat, prepare, reconfigure, cwd } = predictor
  const server = predictor.server?.kind
  const command = predictor.command.length > 0 ? [...predictor.command] : undefined
  return compact({
    kind,
    server,
    command,
    env,
    envNames,
    argFormat,
    files,
    prepare: prepare && {
      command: [...prepare.command],
      env: prepare.env,
      inputs: prepare.inputs,
      timeout: prepare.timeoutS === undefined ? undefined : formatDuration(prepare.timeoutS * 1000),
    },
    reconfigure: reconfigure && [...reconfigure],
    cwd,
    protocol,
    path,
    signature,
    healthPath,
    body,
    contentType,
    form,
    headers,
    readyTimeout,
  })
}

const transferEntry = ({ gbPerS, latencyMs }: NonNullable<BuiltinTemplate['kvTransfer']>) => ({
  bandwidth: gbPerS === undefined ? undefined : `${gbPerS} GB/s`,
  latency: latencyMs === undefined ? undefined : formatDuration(latencyMs),
})

/** A trace stays a path: its arrivals would be the largest part of the document. */
function arrivalsEntry(
  arrivals: Experiment['load']['arrivals'],
  trace: TraceFile | undefined,
): unknown {
  switch (arrivals.kind) {
    case 'on-off':
      return {
        kind: 'on-off',
        on: formatDuration(arrivals.onS * 1000),
        off: formatDuration(arrivals.offS * 1000),
      }
    case 'trace':
      return { kind: 'trace', ...trace }
    case 'gamma':
      return { kind: 'gamma', cv: arrivals.cv }
    default:
      return arrivals.kind
  }
}

/** Without entries that are undefined, at any depth. */
function compact(value: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, inner]) => {
      if (inner === undefined) return []
      return [[key, isRecord(inner) ? compact(inner) : inner]]
    }),
  )
}

/**
 * Paths of the document that are shown and traced as one: parameters, and everything that is no
 * section.
 */
function leaves(document: ExperimentDocument): [Path, unknown][] {
  const parents = new Set([
    'model',
    'slo',
    'space',
    'pin',
    'predictor',
    'kubernetes',
    'load',
    'expect',
    'golden',
    'budget',
    'stop',
  ])
  return Object.entries(document).flatMap(([key, value]): [Path, unknown][] =>
    parents.has(key) && typeof value === 'object' && value !== null
      ? Object.entries(value).map(([inner, leaf]): [Path, unknown] => [[key, inner], leaf])
      : [[[key], value]],
  )
}

/**
 * Where each leaf of the document came from. What no layer set is a default; those that follow from
 * something else say from what.
 */
export function originsOf(
  document: ExperimentDocument,
  merged: Merged,
  devicesUsed: Experiment['devicesUsed'],
): Record<string, Origin> {
  const { entries } = merged
  const reasons: Record<string, string | undefined> = {
    name: 'the model',
    'model.architecture': 'the name',
    objective: entries.demand === undefined ? 'no demand' : 'there is a demand',
    'load.timeout': '10 times the SLO, at least 2s',
    'predictor.engine': devicesUsed === 'emulated' ? 'no GPU is used' : undefined,
    'space.cpuCores': document.backend === 'local' ? 'cores of this machine' : undefined,
  }
  return Object.fromEntries(
    leaves(document).map(([path]): [string, Origin] => {
      const [section, name] = path
      const pinned =
        section === 'space' ? merged.layerOf(['pin', name!])?.originOf(['pin', name!]) : undefined
      const origin = pinned ?? merged.layerOf(path)?.originOf(path)
      return [joinPath(path), origin ?? { kind: 'default', reason: reasons[joinPath(path)] }]
    }),
  )
}

/**
 * Every effective value and where it came from, in the order of the experiment file: the rows of
 * `tune config`.
 */
export function describeExperiment(experiment: Experiment): ConfigRow[] {
  return leaves(experiment.document).map(([path, value]) => {
    const name = joinPath(path)
    return {
      path: name,
      value: describeLeaf(experiment, path, value),
      origin: showOrigin(experiment.origins[name] ?? { kind: 'default' }),
    }
  })
}

function describeLeaf(experiment: Experiment, path: Path, value: unknown): string {
  if (path[0] === 'space') return describeParameter(experiment, String(path[1]))
  switch (joinPath(path)) {
    case 'kubernetes.pod':
    case 'kubernetes.job':
      return describePod(value)
    case 'predictor.command':
      return (value as string[]).map((word) => (/\s/.test(word) ? `'${word}'` : word)).join(' ')
    default:
      return describeValue(value)
  }
}

function describeParameter({ space }: Experiment, name: string): string {
  const parameter = space.parameters.find((candidate) => candidate.name === name)!
  const scale = parameter.kind !== 'categorical' && parameter.scale === 'log' ? ', log' : ''
  const when = parameter.when ? `, when ${parameter.when.text}` : ''
  return `${describeDomain(parameter)} (${parameter.kind}, ${parameter.category}${scale}${when})`
}

/** A pod template is too long for a row: its containers and their images stand for it. */
function describePod(pod: unknown): string {
  const containers = containersOf(pod as Record<string, unknown>) as {
    name?: unknown
    image?: unknown
  }[]
  return isOwnPredictor(pod as Record<string, unknown>)
    ? containers.map(({ name, image }) => `${name} (${image ?? 'no image'})`).join(', ')
    : JSON.stringify(pod)
}

function describeValue(value: unknown): string {
  if (Array.isArray(value)) return value.map((item) => describeValue(item)).join(', ')
  if (typeof value === 'object' && value !== null)
    return Object.entries(value)
      .map(([key, inner]) => `${key}=${describeValue(inner)}`)
      .join(' ')
  return String(value)
}
