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
  /**
   * Reference → value. References: `file:///path/tune.yaml#/predictor/env/TOKEN` (a field of the
   * file), the same with `!2` (the second secret within it), `env:TUNE_SECRET_...` (command line).
   */
  readonly secrets: ReadonlyMap<string, string>
}

/** Replaces the plain-text secrets of a layer by references. */
export function extractSecrets(
  entries: ExperimentEntries,
  layer: Pick<Layer, 'folder' | 'path'>,
): ExtractedSecrets {
  const { predictor, stages, kubernetes, send } = entries
  const extractor = new SecretExtractor(layer)
  return {
    entries: {
      ...entries,
      ...(predictor && { predictor: extractor.extractFromPredictor(predictor) }),
      ...(stages && {
        stages: Object.fromEntries(
          Object.entries(stages).map(([name, stage]) => [
            name,
            extractor.extractFromStage(stage, ['stages', name]),
          ]),
        ),
      }),
      ...(send && { send: extractor.extractFromOutputs(send) }),
      ...(kubernetes && {
        kubernetes: {
          ...kubernetes,
          ...(kubernetes.pod && {
            pod: extractor.extractFromPod(kubernetes.pod, ['kubernetes', 'pod']),
          }),
          ...(kubernetes.job && {
            job: extractor.extractFromPod(kubernetes.job, ['kubernetes', 'job']),
          }),
        },
      }),
    },
    secrets: extractor.secrets,
  }
}

type Predictor = NonNullable<ExperimentEntries['predictor']>
type Stage = NonNullable<ExperimentEntries['stages']>[string]
type Outputs = NonNullable<ExperimentEntries['send']>
type Texts = Readonly<Record<string, string>>

/** Keys of a predictor that hold a path of its URL. */
const urlPathFields: ReadonlySet<string> = new Set(['path', 'healthPath'])

class SecretExtractor {
  readonly secrets = new Map<string, string>()
  constructor(private readonly layer: Pick<Layer, 'folder' | 'path'>) {}

  extractFromStage(stage: Stage, at: Path): Stage {
    const { predictor, kubernetes } = stage
    return {
      ...stage,
      ...(predictor && { predictor: this.extractFromPredictor(predictor, [...at, 'predictor']) }),
      ...(kubernetes?.pod && {
        kubernetes: {
          ...kubernetes,
          pod: this.extractFromPod(kubernetes.pod, [...at, 'kubernetes', 'pod']),
        },
      }),
    }
  }

  extractFromPredictor(settings: Predictor, at: Path = ['predictor']): Predictor {
    const { headers, prepare, reconfigure, env, command, urls, ...rest } = settings
    return {
      ...mapTextFields(rest, (text, key) =>
        this.replaceSecretParts(text, [...at, key], urlPathFields.has(key)),
      ),
      ...(headers && {
        headers: this.extractFromNamed(headers, [...at, 'headers'], (name) => isSecretHeader(name)),
      }),
      ...this.extractFromStart({ env, command }, at),
      ...(urls && {
        urls: urls.map((one, i) => ({
          ...one,
          url: this.replaceSecretParts(one.url, [...at, 'urls', i, 'url']),
        })),
      }),
      ...(reconfigure && {
        reconfigure: this.extractFromArguments(reconfigure, [...at, 'reconfigure']),
      }),
      ...(prepare && {
        prepare: {
          ...prepare,
          ...this.extractFromStart(prepare, [...at, 'prepare']),
        } as typeof prepare,
      }),
    }
  }

  extractFromOutputs(targets: Outputs): Outputs {
    return Object.fromEntries(
      Object.entries(targets).map(([kind, target]) => {
        const at = ['send', kind]
        const headers =
          target?.headers &&
          this.extractFromNamed(target.headers, [...at, 'headers'], (name) => isSecretHeader(name))
        return [
          kind,
          target && {
            ...target,
            url: this.replaceSecretParts(target.url, [...at, 'url']),
            ...(headers && { headers }),
          },
        ]
      }),
    )
  }

  /** Secrets in a command and, by the names of variables, in its environment. */
  private extractFromStart({ env, command }: { env?: Texts; command?: string[] }, at: Path) {
    return {
      ...(env && {
        env: this.extractFromNamed(
          env,
          [...at, 'env'],
          (name, value) => isSecretName(name) && isSecretValue(name, value),
        ),
      }),
      ...(command && { command: this.extractFromArguments(command, [...at, 'command']) }),
    }
  }

  /** Secrets of a pod template: variables by name, commands, and recognisable ones elsewhere. */
  extractFromPod<T>(value: T, at: Path): T {
    if (typeof value === 'string') return this.replaceSecretParts(value, at) as T
    if (Array.isArray(value)) {
      const isCommand =
        (at.at(-1) === 'command' || at.at(-1) === 'args') &&
        value.every((word) => typeof word === 'string')
      return (
        isCommand
          ? this.extractFromArguments(value, at)
          : value.map((item, i) => this.extractFromPod(item, [...at, i]))
      ) as T
    }
    if (typeof value !== 'object' || value === null) return value
    const { name, value: variableValue } = value as { name?: unknown; value?: unknown }
    if (
      typeof name === 'string' &&
      typeof variableValue === 'string' &&
      isSecretName(name) &&
      isSecretValue(name, variableValue)
    )
      return { ...value, value: this.replaceWholeText(variableValue, [...at, 'value']) }
    return Object.fromEntries(
      Object.entries(value).map(([key, inner]) => [key, this.extractFromPod(inner, [...at, key])]),
    ) as T
  }

  private extractFromNamed(
    texts: Texts,
    at: Path,
    isSecret: (name: string, value: string) => boolean,
  ): Record<string, string> {
    return Object.fromEntries(
      Object.entries(texts).map(([name, text]) => [
        name,
        isSecret(name, text)
          ? this.replaceWholeText(text, [...at, name])
          : this.replaceSecretParts(text, [...at, name]),
      ]),
    )
  }

  /** Secrets in arguments, including the word after `--token`. */
  private extractFromArguments(words: readonly string[], at: Path): string[] {
    return words.map((word, i) => {
      const flag = /^--?([A-Za-z][\w.-]*)$/.exec(words[i - 1] ?? '')?.[1]
      const follows =
        flag !== undefined &&
        !word.startsWith('-') &&
        isSecretName(flag) &&
        isSecretValue(flag, word)
      return follows
        ? this.replaceWholeText(word, [...at, i])
        : this.replaceSecretParts(word, [...at, i])
    })
  }

  /** A placeholder of a template engine, `{{...}}`, is no secret. */
  private replaceWholeText(text: string, at: Path): string {
    if (text === '' || /^\{\{.*\}\}$/.test(text)) return text
    return findReferences(text).length > 0
      ? this.resolveFileReferences(text)
      : this.storeSecret(text, at)
  }

  private replaceSecretParts(text: string, at: Path, isUrlPath = false): string {
    const resolved = this.resolveFileReferences(text)
    const spans = findSecrets(resolved, isUrlPath)
    return spans.reduceRight(
      (rest, [from, to], i) =>
        `${rest.slice(0, from)}${this.storeSecret(resolved.slice(from, to), at, i + 1)}${rest.slice(to)}`,
      resolved,
    )
  }

  /** `${file:token.txt}` is relative to the folder of the file that contains it. */
  private resolveFileReferences(text: string): string {
    return replaceReferences(text, (name) => {
      const [, path] = /^file:(?!\/\/)(.+)$/.exec(name) ?? []
      return `\${${path === undefined ? name : pathToFileURL(resolve(this.layer.folder, path)).href}}`
    })
  }

  private storeSecret(value: string, at: Path, part?: number): string {
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
  const { predictor, stages, kubernetes, outputs, secrets = new Map<string, string>() } = experiment
  const problems = new Map<string, ConfigProblem>()
  const resolveSecret = (name: string, asTemplate: boolean): string => {
    const extractedValue = secrets.get(name)
    const value = extractedValue ?? lookUpSecret(name)
    if (typeof value !== 'string') {
      problems.set(name, value)
      return ''
    }
    registerSecret(value)
    // The launcher fills in `${...}` of a command. A value from a file or variable outside the
    // experiment must not be filled in: escape it.
    return asTemplate && extractedValue === undefined ? value.replaceAll('${', () => '$${') : value
  }
  const fill = <T>(part: T, asTemplate: boolean): T =>
    mapTexts(part, (text) => replaceReferences(text, (name) => resolveSecret(name, asTemplate)))
  const filled = {
    ...experiment,
    predictor: fill<PredictorTemplate>(predictor, predictor.kind === 'command'),
    ...(stages && {
      stages: stages.map((stage) => {
        const { predictor, kubernetes } = stage.experiment
        const filled = {
          predictor: fill<PredictorTemplate>(predictor, predictor.kind === 'command'),
          ...(kubernetes && { kubernetes: fill(kubernetes, false) }),
        }
        return { ...stage, experiment: { ...stage.experiment, ...filled } }
      }),
    }),
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
 * Fills in the references of a command-line text and registers the values as secrets.
 * @throws ConfigError
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
  const isFromCommandLine = variable.startsWith(variablePrefix)
  return {
    where: `$${variable}`,
    what: isFromCommandLine
      ? 'a secret was passed on the command line, and tune does not store it'
      : 'the secret is not set',
    hint: `export ${variable}=... and run again`,
  }
}
