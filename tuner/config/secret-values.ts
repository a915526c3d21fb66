/**
 * Secrets of an experiment. Plain-text secrets of a file or the command line are replaced by
 * references as the settings are read, so that whatever stores, shows or writes an experiment
 * contains only references. The values are filled in where predictors are started and called.
 */
import { resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { readText } from '../../profiler/bounded-reader.ts'
import type { PredictorTemplate } from '../../trials/launchers/template.ts'
import {
  findReferences,
  findSecrets,
  isSecretHeader,
  isSecretName,
  isSecretValue,
  mapTexts,
  registerSecret,
  replaceReferences,
} from '../../trials/secrets.ts'
import { readExperimentFile } from './experiment-file.ts'
import { checkLayer, joinPath } from './layers.ts'
import type { ExperimentEntries } from './schema/experiment-schema.ts'
import { ConfigError, type ConfigProblem, type Experiment } from './types.ts'
import type { Layer, Path } from './yaml-file.ts'

/**
 * Prefix of the environment variables that supply secrets of the command line when an experiment
 * resumes: nothing stores those.
 */
const variablePrefix = 'TUNE_SECRET_'

interface ExtractedSecrets {
  readonly entries: ExperimentEntries
  /** Reference → value. */
  readonly secrets: ReadonlyMap<string, string>
}

/** Replaces the plain-text secrets of a layer by references. */
export function extractSecrets(
  entries: ExperimentEntries,
  layer: Pick<Layer, 'folder' | 'path'>,
): ExtractedSecrets {
  const { predictor, kubernetes, send } = entries
  const taker = new SecretExtractor(layer)
  return {
    entries: {
      ...entries,
      ...(predictor && { predictor: taker.predictor(predictor) }),
      ...(send && { send: taker.outputs(send) }),
      ...(kubernetes && {
        kubernetes: {
          ...kubernetes,
          ...(kubernetes.pod && { pod: taker.pod(kubernetes.pod, ['kubernetes', 'pod']) }),
          ...(kubernetes.job && { job: taker.pod(kubernetes.job, ['kubernetes', 'job']) }),
        },
      }),
    },
    secrets: taker.secrets,
  }
}

type Predictor = NonNullable<ExperimentEntries['predictor']>
type Outputs = NonNullable<ExperimentEntries['send']>
type Texts = Readonly<Record<string, string>>

/** Keys of a predictor that hold a path of its URL. */
const urlPathFields: ReadonlySet<string> = new Set(['path', 'healthPath'])

class SecretExtractor {
  readonly secrets = new Map<string, string>()
  constructor(private readonly layer: Pick<Layer, 'folder' | 'path'>) {}

  predictor(given: Predictor): Predictor {
    const { headers, prepare, reconfigure, env, command, urls, ...rest } = given
    const at = ['predictor']
    return {
      ...mapTextFields(rest, (text, key) => this.text(text, [...at, key], urlPathFields.has(key))),
      ...(headers && {
        headers: this.named(headers, [...at, 'headers'], (name) => isSecretHeader(name)),
      }),
      ...this.started({ env, command }, at),
      ...(urls && {
        urls: urls.map((one, i) => ({
          ...one,
          url: this.text(one.url, [...at, 'urls', i, 'url']),
        })),
      }),
      ...(reconfigure && { reconfigure: this.words(reconfigure, [...at, 'reconfigure']) }),
      ...(prepare && {
        prepare: { ...prepare, ...this.started(prepare, [...at, 'prepare']) } as typeof prepare,
      }),
    }
  }

  outputs(given: Outputs): Outputs {
    return Object.fromEntries(
      Object.entries(given).map(([kind, target]) => {
        const at = ['send', kind]
        const headers =
          target?.headers &&
          this.named(target.headers, [...at, 'headers'], (name) => isSecretHeader(name))
        return [
          kind,
          target && {
            ...target,
            url: this.text(target.url, [...at, 'url']),
            ...(headers && { headers }),
          },
        ]
      }),
    )
  }

  /** Secrets in a command and, by the names of variables, in its environment. */
  private started({ env, command }: { env?: Texts; command?: string[] }, at: Path) {
    return {
      ...(env && {
        env: this.named(
          env,
          [...at, 'env'],
          (name, value) => isSecretName(name) && isSecretValue(name, value),
        ),
      }),
      ...(command && { command: this.words(command, [...at, 'command']) }),
    }
  }

  /** Secrets of a pod template: variables by name, commands, and recognisable ones elsewhere. */
  pod<T>(value: T, at: Path): T {
    if (typeof value === 'string') return this.text(value, at) as T
    if (Array.isArray(value)) {
      const isCommand =
        (at.at(-1) === 'command' || at.at(-1) === 'args') &&
        value.every((word) => typeof word === 'string')
      return (
        isCommand ? this.words(value, at) : value.map((item, i) => this.pod(item, [...at, i]))
      ) as T
    }
    if (typeof value !== 'object' || value === null) return value
    const { name, value: of } = value as { name?: unknown; value?: unknown }
    if (
      typeof name === 'string' &&
      typeof of === 'string' &&
      isSecretName(name) &&
      isSecretValue(name, of)
    )
      return { ...value, value: this.whole(of, [...at, 'value']) }
    return Object.fromEntries(
      Object.entries(value).map(([key, inner]) => [key, this.pod(inner, [...at, key])]),
    ) as T
  }

  private named(
    texts: Texts,
    at: Path,
    isSecret: (name: string, value: string) => boolean,
  ): Record<string, string> {
    return Object.fromEntries(
      Object.entries(texts).map(([name, text]) => [
        name,
        isSecret(name, text) ? this.whole(text, [...at, name]) : this.text(text, [...at, name]),
      ]),
    )
  }

  /** Secrets in arguments, including the word after `--token`. */
  private words(words: readonly string[], at: Path): string[] {
    return words.map((word, i) => {
      const flag = /^--?([A-Za-z][\w.-]*)$/.exec(words[i - 1] ?? '')?.[1]
      const follows =
        flag !== undefined &&
        !word.startsWith('-') &&
        isSecretName(flag) &&
        isSecretValue(flag, word)
      return follows ? this.whole(word, [...at, i]) : this.text(word, [...at, i])
    })
  }

  private whole(text: string, at: Path): string {
    if (text === '' || /^\{\{.*\}\}$/.test(text)) return text
    return findReferences(text).length > 0 ? this.absolute(text) : this.taken(text, at)
  }

  private text(text: string, at: Path, isUrlPath = false): string {
    const given = this.absolute(text)
    const spans = findSecrets(given, isUrlPath)
    return spans.reduceRight(
      (rest, [from, to], i) =>
        `${rest.slice(0, from)}${this.taken(given.slice(from, to), at, i + 1)}${rest.slice(to)}`,
      given,
    )
  }

  /** `${file:token.txt}` is relative to the folder of the file that contains it. */
  private absolute(text: string): string {
    return replaceReferences(text, (name) => {
      const [, path] = /^file:(?!\/\/)(.+)$/.exec(name) ?? []
      return `\${${path === undefined ? name : pathToFileURL(resolve(this.layer.folder, path)).href}}`
    })
  }

  private taken(value: string, at: Path, part?: number): string {
    registerSecret(value)
    const nth = part === undefined ? '' : `!${part}`
    const steps = at.map((step) =>
      encodeURIComponent(String(step).replaceAll('~', '~0').replaceAll('/', '~1')),
    )
    const inFile =
      this.layer.path === undefined
        ? undefined
        : `${pathToFileURL(this.layer.path).href}#/${steps.join('/')}${nth}`
    const name =
      inFile ?? `env:${nameVariable(part === undefined || part === 1 ? at : [...at, part])}`
    this.secrets.set(name, value)
    return `\${${name}}`
  }
}

const nameVariable = (path: Path): string =>
  `${variablePrefix}${joinPath(path)
    .replace(/[^A-Za-z0-9]+/g, '_')
    .toUpperCase()}`

const mapTextFields = <T extends object>(
  fields: T,
  change: (text: string, key: string) => string,
): T =>
  Object.fromEntries(
    Object.entries(fields).map(([key, value]) => [
      key,
      typeof value === 'object' && value !== null && !Array.isArray(value)
        ? mapTextFields(value, (text, inner) => change(text, `${key}/${inner}`))
        : typeof value === 'string'
          ? change(value, key)
          : value,
    ]),
  ) as T

/**
 * Fills in every reference for starting and calling predictors, and registers the values as secrets
 * to redact.
 * @throws ConfigError with every missing secret and where to set it
 */
export function fillSecrets(experiment: Experiment): Experiment {
  const { predictor, kubernetes, outputs, secrets = new Map<string, string>() } = experiment
  const problems = new Map<string, ConfigProblem>()
  const secretFor = (name: string, asTemplate: boolean): string => {
    const written = secrets.get(name)
    const value = written ?? lookUpSecret(name)
    if (typeof value !== 'string') {
      problems.set(name, value)
      return ''
    }
    registerSecret(value)
    // A value from outside is no template: escape what looks like a placeholder.
    return asTemplate && written === undefined ? value.replaceAll('${', () => '$${') : value
  }
  const fill = <T>(part: T, asTemplate: boolean): T =>
    mapTexts(part, (text) => replaceReferences(text, (name) => secretFor(name, asTemplate)))
  const filled = {
    ...experiment,
    predictor: fill<PredictorTemplate>(predictor, predictor.kind === 'command'),
    ...(kubernetes && { kubernetes: fill(kubernetes, false) }),
    outputs: fill(outputs, false),
  }
  if (problems.size > 0) throw new ConfigError([...problems.values()])
  return filled
}

function lookUpSecret(name: string): string | ConfigProblem {
  if (name.startsWith('env:')) return readVariable(name.slice('env:'.length))
  const url = name.slice(0, name.includes('#') ? name.indexOf('#') : undefined)
  const path = url.startsWith('file://') ? fileURLToPath(url) : resolve(url.slice('file:'.length))
  const where = `\${${name}}`
  if (url !== name) {
    const { layer } = readExperimentFile(path, '/')
    const value = layer && extractSecrets(checkLayer(layer).entries, layer).secrets.get(name)
    return (
      value ?? {
        where,
        what: 'the secret is no longer there',
        hint: `put it back into ${path}: tune does not store it`,
      }
    )
  }
  try {
    return readText(path, 'document').trim()
  } catch (error) {
    return {
      where,
      what: `the secret cannot be read: ${(error as Error).message}`,
      hint: 'check the path and its permissions',
    }
  }
}

/**
 * Fills in the references of a command-line text and registers the values as secrets. @throws
 * ConfigError
 */
export function fillReferences(text: string): string {
  return replaceReferences(text, (name) => {
    const value = lookUpSecret(name)
    if (typeof value !== 'string') throw new ConfigError([value])
    registerSecret(value)
    return value
  })
}

function readVariable(variable: string): string | ConfigProblem {
  const value = process.env[variable]
  if (value !== undefined && value !== '') return value
  const given = variable.startsWith(variablePrefix)
  return {
    where: `$${variable}`,
    what: given
      ? 'a secret was passed on the command line, and tune does not store it'
      : 'the secret is not set',
    hint: `export ${variable}=... and run again`,
  }
}
