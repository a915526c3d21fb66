/**
 * Entry of this folder: the experiment of a command line, a program or the trial store.
 *
 *   read      file, object, environment and flags become layers with the origin of each value
 *   check     the schema reads each layer: base units, absolute paths, secrets taken out
 *   merge     the later layer wins; the first has the defaults
 *   resolve   settings become an experiment; all problems are reported at once
 *   document  the schema writes the settings again: for the store, `tune config` and the dashboard
 *
 * A stored experiment is read as one more layer.
 */
import type { HostContext } from './context.ts'
import { readExperimentFile } from './experiment-file.ts'
import {
  createDefaultsLayer,
  createEnvironmentLayer,
  createFlagsLayer,
  type FlagValues,
} from './flags/flags.ts'
import { checkLayer, createUniformLayer, mergeLayers } from './layers.ts'
import { resolveExperiment } from './resolve.ts'
import { resolvePipeline } from './resolve-pipeline.ts'
import { isTritonPipeline, resolveTritonPipeline } from './resolve-triton-pipeline.ts'
import type { ExperimentInput, Settings } from './schema/experiment-schema.ts'
import { extractSecrets } from './secret-values.ts'
import {
  ConfigError,
  type ConfigProblem,
  type Experiment,
  type ExperimentDocument,
} from './types.ts'
import type { Layer } from './yaml-file.ts'

export interface ExperimentRequest extends HostContext {
  /** Path of the experiment file, as the user gave it. */
  readonly file?: string
  /** Contents of that file, if it is not written yet. */
  readonly text?: string
  /** Settings that a program passes, in the form of the experiment file. */
  readonly given?: ExperimentInput
  /** commander's `opts()`. */
  readonly flags?: FlagValues
  /** TUNE_* variables are read from it. */
  readonly environment?: Readonly<Record<string, string | undefined>>
}

/**
 * Loads the effective experiment: defaults, file, object of a program, environment (TUNE_*) and
 * flags; later ones win.
 * @throws ConfigError with all problems, each with its file:line:column or flag
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
  if (given !== undefined) layers.push(createUniformLayer(given, { kind: 'given' }, cwd))
  const fromFlags = createFlagsLayer(flags, cwd)
  problems.push(...fromFlags.problems)
  const experiment = assemble(
    [...layers, createEnvironmentLayer(environment, cwd), fromFlags.layer],
    problems,
    unread,
    file ?? (given === undefined ? 'command line' : 'experiment'),
    request,
  )
  return { ...experiment, notices: [...notices, ...experiment.notices] }
}

/**
 * Loads the experiment of a stored document, with flags merged in (a larger budget for `resume`).
 * @throws ConfigError as loadExperiment does.
 */
export function loadExperimentDocument(
  document: ExperimentDocument,
  id: string,
  host: HostContext,
  flags: FlagValues = {},
): Experiment {
  const stored = createUniformLayer(document, { kind: 'stored', id }, host.cwd)
  const fromFlags = createFlagsLayer(flags, host.cwd)
  return assemble([stored, fromFlags.layer], fromFlags.problems, false, `experiment ${id}`, {
    ...host,
    isStored: true,
  })
}

/** @param problemPlace place of problems without an origin: the file's name or 'command line' */
function assemble(
  layers: readonly Layer[],
  earlierProblems: readonly ConfigProblem[],
  unread: boolean,
  problemPlace: string,
  host: HostContext,
): Experiment {
  const checked = [createDefaultsLayer(host.cwd), ...layers].map((layer) => {
    const checkedLayer = checkLayer(layer)
    return { layer, ...checkedLayer, ...extractSecrets(checkedLayer.entries, layer) }
  })
  const problems = [...earlierProblems, ...checked.flatMap((layer) => layer.problems)]
  const invalidKeys = new Set(checked.flatMap((layer) => [...layer.invalidKeys]))
  // An unreadable file may contain what seems to be missing, so nothing is reported as missing.
  if (unread) throw new ConfigError(sortProblems(problems))
  const merged = mergeLayers(checked)
  const resolve = chooseResolver(merged.settings)
  const resolved = resolve(merged, problemPlace, invalidKeys, host)
  problems.push(...resolved.problems)
  if (problems.length > 0 || !resolved.experiment) throw new ConfigError(sortProblems(problems))
  return {
    ...resolved.experiment,
    secrets: new Map(checked.flatMap(({ secrets }) => [...secrets])),
  }
}

/** Maximum number of listed problems; more usually mean a wrong file. */
const maxProblems = 50

/**
 * Sorts problems by file, line and column, then flags; removes duplicates, and keeps at most
 * `maxProblems`.
 */
function sortProblems(problems: readonly ConfigProblem[]): ConfigProblem[] {
  const unique = [
    ...new Map(problems.map((problem) => [`${problem.where}\n${problem.what}`, problem])).values(),
  ]
  const sorted = unique.sort((a, b) => a.where.localeCompare(b.where, 'en', { numeric: true }))
  const more = sorted.length - maxProblems
  return more <= 0
    ? sorted
    : [
        ...sorted.slice(0, maxProblems),
        { where: sorted[0]!.where, what: `and ${more} more problems`, hint: '' },
      ]
}

function chooseResolver(settings: Settings): typeof resolveExperiment {
  if (isTritonPipeline(settings)) return resolveTritonPipeline
  return settings.stages === undefined ? resolveExperiment : resolvePipeline
}
