/** Placeholders of templates, e.g. `${port}`: their names, and how they are found and filled. */
import type { Parameter } from '../../search/types.ts'
import { isReference } from '../secrets.ts'
import { isLanguageServer, type ServerKind } from '../servers/server-kinds.ts'
import type { PrepareStep, TemplateFile } from './template.ts'

/** The part of a parameter that launchers use. */
export type TunedParameter = Pick<Parameter, 'name' | 'category'>

/** Placeholders other than names of parameters. */
export const launcherPlaceholders = [
  'host',
  'port',
  'model',
  'trial',
  'dir',
  'cpuCores',
  'coreList',
  'gpuMemoryMiB',
  'gpuMemoryFraction',
] as const

/** The folder that a `prepare` step fills, if the template has one. */
export const preparedName = 'prepared'

type StagePlaceholder = `stages.${string}.url`

export type LauncherValues = Readonly<
  Partial<
    Record<
      (typeof launcherPlaceholders)[number] | typeof preparedName | StagePlaceholder,
      string | number
    >
  >
>

/** Placeholder of the address of a stage that the predictor calls. */
export const formatStagePlaceholder = (stage: string): StagePlaceholder => `stages.${stage}.url`

/** Whether a placeholder looks like the address of a stage. */
export const isStagePlaceholder = (name: string): boolean => /^stages\..*\.url$/.test(name)

/**
 * Lists the values of the placeholders for the addresses of stages.
 * @param urls by the name of the stage
 */
export const listStageValues = (urls: ReadonlyMap<string, string> = new Map()): LauncherValues =>
  Object.fromEntries([...urls].map(([stage, url]) => [formatStagePlaceholder(stage), url]))

/** Placeholders of a `prepare` step: equal in all trials of a configuration. */
export const preparePlaceholders = [
  'model',
  'cpuCores',
  'gpuMemoryMiB',
  'gpuMemoryFraction',
] as const

/** Placeholders of `reconfigure`, beside those of parameters. */
export const reconfigurePlaceholders = ['host', 'port', 'model'] as const

/** Lists the texts of a `prepare` step, which may contain placeholders. */
export const listPrepareTexts = (step: PrepareStep | undefined): string[] => [
  ...(step?.command ?? []),
  ...Object.values(step?.env ?? {}),
]

/** Where `args` parameters are inserted; they are appended to a command without it. */
export const argsPlaceholder = '${args}'

/** Gets the default argument format of a server (see `argFormat`). */
export const getArgFormat = (kind: ServerKind | undefined): readonly string[] => {
  if (kind === undefined || !isLanguageServer(kind)) return ['--${name}=${value}']
  return [kind === 'tensorrt-llm' ? '--${snake_name}=${value}' : '--${kebab-name}=${value}']
}

/** Formats the values of the placeholders in an `argFormat`. */
export const formatArgumentNames = (name: string, value: string): Record<string, string> => ({
  name,
  'kebab-name': separateWords(name, '-').toLowerCase(),
  snake_name: separateWords(name, '_').toLowerCase(),
  value,
})

/**
 * 'gpuMemoryMiB' → gpu, Memory, MiB: words begin at a capital after a small letter or digit; units
 * such as 'MiB' are not split.
 */
const separateWords = (name: string, separator: string): string =>
  name
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .replace(/ ?([KMGT]) ?i ?B\b/g, ' $1iB')
    .trim()
    .split(/[\s_\-.]+/)
    .join(separator)

/** MAX_BATCH_SIZE for maxBatchSize, max-batch-size and max_batch_size. */
export const formatEnvironmentName = (name: string): string =>
  separateWords(name, '_').toUpperCase()

/** Also matches the escape $${. */
const placeholderPattern = /\$?\$\{([^}]*)\}/g

/** Lists the names of the placeholders in a text, without escaped ones and secrets. */
export const findPlaceholders = (text: string): string[] =>
  [...text.matchAll(placeholderPattern)]
    .filter(([whole, name]) => !whole.startsWith('$$') && !isReference(name!))
    .map(([, name]) => name!)

/** @param onMissing called for a placeholder without a value */
export const fillPlaceholders = (
  text: string,
  values: Readonly<Record<string, string | number>>,
  onMissing: (name: string) => void,
): string =>
  text.replace(placeholderPattern, (whole, name: string) => {
    if (whole.startsWith('$$')) return whole.slice(1)
    // A reference to a secret, which is resolved on use: specs keep the reference.
    if (isReference(name)) return whole
    if (!Object.hasOwn(values, name)) onMissing(name)
    return String(values[name])
  })

/** Whether the path of a file is unusable, or leaves the trial's folder. */
export const isInvalidFilePath = ({ path }: Pick<TemplateFile, 'path'>): boolean =>
  path.startsWith('/') ||
  path.split('/').includes('..') ||
  path === '' ||
  path.endsWith('/') ||
  path.includes('\0')

export const formatPlaceholderHint = (
  parameters: readonly TunedParameter[],
  calledStages: readonly string[] = [],
): string =>
  `known: ${joinNames([...parameters.map((parameter) => parameter.name), ...launcherPlaceholders, ...calledStages.map(formatStagePlaceholder)])} (write $\${ for a literal \${)`

export const joinNames = (list: readonly string[]): string => list.join(', ')
