/**
 * Servers whose flags and files are generated for each trial. The user names server and model, and
 * tunes parameters by common names.
 */
import type { ProtocolName } from '../../profiler/protocols/protocol-table.ts'
import type { Configuration } from '../../search/types.ts'
import { Knobs } from './knobs.ts'
import { createTunedStart, languagePrograms } from './language-servers.ts'
import { OwnSettings } from './own-settings.ts'
import { isLanguageServer, type ServerKind } from './server-kinds.ts'
import {
  limitShare,
  type ServerPlace,
  type ServerPreset,
  type ServerStart,
} from './server-start.ts'
import { batchingFlag, startTfserving } from './tfserving.ts'
import { startTriton } from './triton.ts'

/** Program and arguments where the user names none. */
export function createServerCommand(kind: ServerKind, modelPath: string): readonly string[] {
  if (isLanguageServer(kind)) return languagePrograms[kind].command(modelPath)
  return [kind === 'triton' ? 'tritonserver' : 'tensorflow_model_server']
}

/** How to install the program; undefined if this is not known. */
export const getServerInstall = (
  preset: Pick<ServerPreset, 'kind'> | undefined,
): string | undefined =>
  preset !== undefined && isLanguageServer(preset.kind)
    ? languagePrograms[preset.kind].install
    : undefined

/** Gets the protocol where the user names none. */
export const getServerProtocol = (kind: ServerKind): ProtocolName =>
  isLanguageServer(kind) ? 'openai' : kind === 'triton' ? 'oip-v2' : 'tfserving'

/** Parameters that reach the server through `args` and `files`, or by Triton's model control. */
interface TunedStart extends ServerStart {
  readonly taken: ReadonlySet<string>
}

/**
 * Tuned settings of a server, in addition to the user's command; untuned settings of the command
 * are unchanged.
 * @throws SettingsFileError for a settings file that cannot be merged
 */
export function createServerTuning(
  preset: ServerPreset,
  configuration: Configuration,
  place: ServerPlace,
  own = new OwnSettings(),
): TunedStart {
  const knobs = new Knobs(configuration)
  const start = startWith(preset, knobs, configuration, place, own)
  const stageNames = Object.keys(configuration).filter((name) => isStageParameter(preset, name))
  return { ...start, taken: new Set([...knobs.used, ...stageNames]) }
}

/** Whether a parameter is of one of the models that a Triton server serves: `embed.batchSize`. */
export const isStageParameter = ({ models = [] }: ServerPreset, name: string): boolean =>
  models.some(({ stage }) => stage !== undefined && name.startsWith(`${stage}.`))

function startWith(
  preset: ServerPreset,
  knobs: Knobs,
  { gpu, gpus = 1 }: Configuration,
  place: ServerPlace,
  own: OwnSettings,
): ServerStart {
  const { kind } = preset
  if (kind === 'triton') return startTriton(preset, knobs, place, own)
  if (kind === 'tfserving') return startTfserving(preset, knobs, place, own)
  const grant = {
    gpus: Number(gpus),
    ...(gpu !== undefined && { gpu: String(gpu) }),
    share: limitShare(place),
  }
  const { args, ...files } = createTunedStart(kind, knobs, grant, place.dir, own)
  return { args: [...languagePrograms[kind].serves(place), ...args], ...files }
}

/** Stands for host, port and folder where only the names of arguments matter. */
const dummyPlace = { host: '', port: '', model: '', dir: '', gpuMemoryFraction: 0 }
/** Gives each parameter the value 1, to find out which parameters a server takes. */
const createDummyConfiguration = (names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, 1]))

/**
 * Selects the parameters among these names that the server takes.
 * @throws SettingsFileError
 */
export const selectServerParameters = (
  kind: ServerKind,
  names: readonly string[],
  own?: OwnSettings,
): ReadonlySet<string> =>
  createServerTuning({ kind, modelPath: '' }, createDummyConfiguration(names), dummyPlace, own)
    .taken

/** Lists the arguments that a parameter sets. */
export function listFlags(kind: ServerKind, name: string, own: OwnSettings): readonly string[] {
  const { replaced, args: fixed } = createServerTuning({ kind, modelPath: '' }, {}, dummyPlace, own)
  const { args } = createServerTuning(
    { kind, modelPath: '' },
    createDummyConfiguration([name]),
    dummyPlace,
    own,
  )
  const merged = new Set([...replaced, '--enable_batching', batchingFlag])
  return args
    .filter((arg) => !fixed.includes(arg))
    .map((arg) => arg.replace(/=.*$/s, ''))
    .filter((flag) => !merged.has(flag))
}
