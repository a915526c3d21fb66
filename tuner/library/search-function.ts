/**
 * `search` for programs: minimises or maximises any function of a configuration in few evaluations.
 */
import { countConfigurations, createRng, createSampler } from '../../search/index.ts'
import { computeMetricScale, computeModelledRate, type Objective } from '../../search/objective.ts'
import { type SamplerName, samplerNames } from '../../search/samplers/sampler-names.ts'
import { runSearchLoop, type SearchOutcome } from '../../search/stopping/search-loop.ts'
import type { Configuration, Observation, Problem, StopAssessment } from '../../search/types.ts'
import { ConfigError, type ConfigProblem } from '../config/config-error.ts'
import { buildSpace } from '../config/default-space.ts'
import { checkLayer, createUniformLayer, joinPath } from '../config/layers.ts'
import { defaults } from '../config/names.ts'
import type { ExperimentInput } from '../config/schema/experiment-schema.ts'
import { parseShare } from '../config/values/units.ts'
import { exitCodes, UserError } from '../exit-codes.ts'

/** A number, or why the configuration is infeasible, from which the search learns too. */
export type EvaluationResult = number | { readonly infeasible: string }

export interface SearchTrial {
  readonly configuration: Configuration
  /** Why it was tried. */
  readonly why: string
  readonly result: EvaluationResult
}

export interface SearchOptions {
  /**
   * Parameters and their values, as the experiment file has them: `{ workers: '1..16', mode:
   * ['fast', 'safe'], delayMs: { min: 0, max: 20, step: 1 } }`.
   */
  readonly space: NonNullable<ExperimentInput['space']>
  /** Conditions that every configuration satisfies: 'workers <= queue'. */
  readonly constraints?: readonly string[]
  /** Evaluates a configuration, without a time limit. An exception ends the search. */
  readonly evaluate: (
    configuration: Configuration,
    signal: AbortSignal,
  ) => EvaluationResult | Promise<EvaluationResult>
  /** Default 'min'. */
  readonly goal?: 'min' | 'max'
  /** Default 12. */
  readonly maxTrials?: number
  /**
   * Stops at this probability that no untried configuration is better by more than `tolerance`;
   * shares, default 0.95 and 0.05.
   */
  readonly certainty?: number
  readonly tolerance?: number
  /** Default 'gp': a Gaussian process. */
  readonly sampler?: SamplerName
  /** The same seed tries the same configurations; default 1. */
  readonly seed?: number
  /** Ends the search with what it has. */
  readonly signal?: AbortSignal
  readonly onTrial?: (trial: SearchTrial) => void
}

export interface SearchResult {
  /** Absent: no configuration could be measured. */
  readonly best?: { readonly configuration: Configuration; readonly value: number }
  readonly trials: readonly SearchTrial[]
  readonly reason: 'certain' | 'max-trials' | 'space-exhausted' | 'interrupted'
  /**
   * Last assessment of the stop rule: probability that an untried configuration is better by more
   * than the tolerance.
   */
  readonly probabilityBetterExists?: number
}

const metricName = 'value'

/**
 * Searches a space for the configuration with the smallest (or largest) value of a function.
 * @throws ConfigError for an invalid space; UserError for a value that is no finite number; what
 * `evaluate` throws
 */
export async function search(options: SearchOptions): Promise<SearchResult> {
  const {
    evaluate,
    goal = 'min',
    signal = new AbortController().signal,
    seed = defaults.seed,
    onTrial,
  } = options
  const objective: Objective = { kind: `${goal}-metric`, metric: metricName }
  const problem: Problem = { space: buildSearchSpace(options), objective, pricePerHour: () => 1 }
  const rounds = runSearchLoop(problem, createSampler(options.sampler), createRng(seed), {
    maxTrials: options.maxTrials ?? defaults.maxTrials,
    rule: {
      tolerance: options.tolerance ?? parseShare(defaults.tolerance),
      risk: 1 - (options.certainty ?? parseShare(defaults.certainty)),
    },
    until: (_, assessments) => {
      assessment = assessments.at(-1)
      return signal.aborted
    },
  })
  const trials: SearchTrial[] = []
  let assessment: StopAssessment | undefined
  const found = (reason: SearchResult['reason']): SearchResult => ({
    ...findBest(trials, goal),
    trials,
    reason,
    ...(assessment && { probabilityBetterExists: assessment.probabilityBetterExists }),
  })
  for (let step = rounds.next(); ; ) {
    if (step.done) {
      assessment = step.value.assessments.at(-1)
      return found(
        resolveReason(step.value.reason, trials.length >= countConfigurations(problem.space)),
      )
    }
    if (signal.aborted) return found('interrupted')
    const { configuration, why } = step.value
    let result: EvaluationResult
    try {
      result = checkResult(await evaluate(configuration, signal), configuration)
    } catch (error) {
      if (signal.aborted) return found('interrupted')
      throw error
    }
    const trial = { configuration, why, result }
    trials.push(trial)
    onTrial?.(trial)
    step = rounds.next(createObservation(trial, objective, trials))
  }
}

/** An exhausted space takes precedence over certainty. */
function resolveReason(reason: SearchOutcome['reason'], allTried: boolean): SearchResult['reason'] {
  if (reason === 'ended') return 'interrupted'
  return allTried ? 'space-exhausted' : reason
}

/** @throws ConfigError with all problems */
function buildSearchSpace({
  space: asked,
  constraints = [],
  goal = 'min',
  sampler = defaults.sampler,
  maxTrials = defaults.maxTrials,
}: SearchOptions) {
  const layer = createUniformLayer(
    { space: asked, constraints: [...constraints] },
    { kind: 'given' },
    process.cwd(),
  )
  const { entries, problems: found } = checkLayer(layer)
  const problems: ConfigProblem[] = [...found]
  // Untyped callers may pass anything.
  if (!['min', 'max'].includes(goal))
    problems.push({ where: 'goal', what: `'${goal}' is not a goal`, hint: 'use min or max' })
  if (!samplerNames.includes(sampler))
    problems.push({
      where: 'sampler',
      what: `'${sampler}' is not a sampler`,
      hint: `use one of ${samplerNames.join(', ')}`,
    })
  if (!(Number.isInteger(maxTrials) && maxTrials > 0))
    problems.push({
      where: 'maxTrials',
      what: `${maxTrials} is not a number of trials`,
      hint: 'use a whole number above 0',
    })
  // Standard parameter names have no special meaning here.
  const ownSpace = Object.fromEntries(
    Object.entries(entries.space ?? {}).map(([name, entry]) => [
      name,
      { category: 'env' as const, ...entry },
    ]),
  )
  const { space } = buildSpace(
    { space: ownSpace, constraints: entries.constraints },
    {
      backend: 'simulated',
      devices: 'cpu',
      predictor: 'pod',
      cpuCores: Number.POSITIVE_INFINITY,
      gpus: [],
    },
    (path, what, hint) => problems.push({ where: joinPath(path), what, hint }),
    [],
    found.length > 0,
  )
  if (problems.length === 0 && space.parameters.length === 0)
    problems.push({ where: 'space', what: 'no parameters', hint: "add one: { workers: '1..16' }" })
  if (problems.length > 0) throw new ConfigError(problems)
  return space
}

function checkResult(result: EvaluationResult, configuration: Configuration): EvaluationResult {
  if (typeof result === 'number' ? Number.isFinite(result) : typeof result?.infeasible === 'string')
    return result
  throw new UserError(
    `evaluate returned ${typeof result === 'number' ? result : (JSON.stringify(result) ?? 'nothing')} for ${JSON.stringify(configuration)}`,
    "return a finite number, or { infeasible: 'why' }",
    exitCodes.usage,
  )
}

function createObservation(
  { configuration, result }: SearchTrial,
  objective: Objective,
  trials: readonly SearchTrial[],
): Observation {
  if (typeof result !== 'number')
    return { configuration, state: 'infeasible', reason: result.infeasible }
  const measured = (figure: number) => ({ capacityRps: 1, metrics: { [metricName]: figure } })
  const scale = computeMetricScale(
    objective,
    trials.flatMap((trial) => (typeof trial.result === 'number' ? [measured(trial.result)] : [])),
  )
  return {
    configuration,
    state: 'complete',
    rate: { value: computeModelledRate(objective, measured(result), scale) },
  }
}

function findBest(trials: readonly SearchTrial[], goal: 'min' | 'max'): Pick<SearchResult, 'best'> {
  const sign = goal === 'min' ? 1 : -1
  const measured = trials.flatMap(({ configuration, result }) =>
    typeof result === 'number' ? [{ configuration, value: result }] : [],
  )
  const [best] = measured.sort((a, b) => sign * (a.value - b.value))
  return best ? { best } : {}
}
