/**
 * The experiment of a command line or of the store. The entry of this folder:
 *
 *   read      file, object, environment and flags become layers, which know where each value stands
 *   check     the schema reads each layer: base units, absolute paths, secrets taken out
 *   merge     the later layer wins; the first has the defaults
 *   resolve   settings become an experiment; everything that is wrong is reported at once
 *   document  the schema writes the settings again: for the store, `tune config` and the dashboard
 *
 * What the store has is read as one more layer.
 */
import type { Surroundings } from './context.ts'
import { readExperimentFile } from './experiment-file.ts'
import { defaultsLayer, environmentToLayer, type FlagValues, flagsToLayer } from './flags/flags.ts'
import { checkLayer, mergeLayers, uniformLayer } from './layers.ts'
import { resolveExperiment } from './resolve.ts'
import type { ExperimentInput } from './schema/experiment-schema.ts'
import { takeSecrets } from './secret-values.ts'
import {
  ConfigError,
  type ConfigProblem,
  type Experiment,
  type ExperimentDocument,
} from './types.ts'
import type { Layer } from './yaml-file.ts'

export interface ExperimentRequest extends Surroundings {
  /** Path of the experiment file, as the user gave it. */
  readonly file?: string
  /** What will stand in that file, where it is not written yet. */
  readonly text?: string
  /** What a program gives, in the form of the experiment file. */
  readonly given?: ExperimentInput
  /** commander's `opts()`. */
  readonly flags?: FlagValues
  /** TUNE_* variables are read from it. */
  readonly environment?: Readonly<Record<string, string | undefined>>
}

/**
 * The effective experiment: defaults, then file, what a program gives, environment (TUNE_*) and
 * flags, the later winning.
 * @throws ConfigError with everything that is wrong, each with its file:line:column or flag.
 */
export function loadExperiment(request: ExperimentRequest): Experiment {
  const { file, given, flags = {}, environment = {}, cwd } = request
  const problems: ConfigProblem[] = []
  const layers: Layer[] = []
  const notices: string[] = []
  let unread = false
  if (file !== undefined) {
    const read = readExperimentFile(file, cwd, request.text)
    problems.push(...read.problems)
    notices.push(...read.notices)
    if (read.layer) layers.push(read.layer)
    else unread = true
  }
  if (given !== undefined) layers.push(uniformLayer(given, { kind: 'given' }, cwd))
  const fromFlags = flagsToLayer(flags, cwd)
  problems.push(...fromFlags.problems)
  const experiment = assemble(
    [...layers, environmentToLayer(environment, cwd), fromFlags.layer],
    problems,
    unread,
    file ?? (given === undefined ? 'command line' : 'experiment'),
    request,
  )
  return { ...experiment, notices: [...notices, ...experiment.notices] }
}

/**
 * The experiment that a store kept, with flags laid over it (a larger budget for `resume`).
 * @throws ConfigError as loadExperiment does.
 */
export function experimentFromDocument(
  document: ExperimentDocument,
  id: string,
  around: Surroundings,
  flags: FlagValues = {},
): Experiment {
  const stored = uniformLayer(document, { kind: 'stored', id }, around.cwd)
  const fromFlags = flagsToLayer(flags, around.cwd)
  return assemble([stored, fromFlags.layer], fromFlags.problems, false, `experiment ${id}`, {
    ...around,
    stored: true,
  })
}

function assemble(
  layers: readonly Layer[],
  found: readonly ConfigProblem[],
  unread: boolean,
  fallback: string,
  around: Surroundings,
): Experiment {
  const checked = [defaultsLayer(around.cwd), ...layers].map((layer) => {
    const found = checkLayer(layer)
    return { layer, ...found, ...takeSecrets(found.entries, layer) }
  })
  const problems = [...found, ...checked.flatMap((layer) => layer.problems)]
  const broken = new Set(checked.flatMap((layer) => [...layer.broken]))
  // What an unreadable file would have said is not known: nothing is called missing beside it.
  if (unread) throw new ConfigError(sorted(problems))
  const resolved = resolveExperiment(mergeLayers(checked), fallback, broken, around)
  problems.push(...resolved.problems)
  if (problems.length > 0 || !resolved.experiment) throw new ConfigError(sorted(problems))
  return {
    ...resolved.experiment,
    secrets: new Map(checked.flatMap(({ secrets }) => [...secrets])),
  }
}

/** Those that help: who has more of them has another file. */
const mostProblems = 50

/** By file, line and column; then flags. Each once, and of very many the first. */
function sorted(problems: readonly ConfigProblem[]): ConfigProblem[] {
  const once = [
    ...new Map(problems.map((problem) => [`${problem.where}\n${problem.what}`, problem])).values(),
  ]
  const inOrder = once.sort((a, b) => a.where.localeCompare(b.where, 'en', { numeric: true }))
  const more = inOrder.length - mostProblems
  return more <= 0
    ? inOrder
    : [
        ...inOrder.slice(0, mostProblems),
        { where: inOrder[0]!.where, what: `and ${more} more problems`, hint: '' },
      ]
}
