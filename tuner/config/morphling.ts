/**
 * Reads a ProfilingExperiment of Morphling (SoCC '21; kubedl-io/morphling,
 * api/v1alpha1/profilingexperiment_types.go) as an experiment file. Unsupported parts become
 * notices; invalid parts become problems.
 */
import { isRecord } from '../../profiler/plain-record.ts'
import { formatEnvironmentName } from '../../trials/launchers/placeholders.ts'
import { findClosestNames, suggestNames } from '../../trials/near-names.ts'
import { createDraft } from './draft.ts'
import { listContainers } from './kubernetes-settings.ts'
import { getValueAt, showOrigin } from './layers.ts'
import type { ConfigProblem, Origin } from './types.ts'
import { parseNumber } from './values/shorthand.ts'
import { parseMemoryMiB, UnitError } from './values/units.ts'
import type { Layer, Path } from './yaml-file.ts'

const groups = ['morphling.kubedl.io/v1alpha1', 'tuning.kubedl.io/v1alpha1']

export const isProfilingExperiment = (raw: unknown): boolean =>
  getValueAt(raw, ['kind']) === 'ProfilingExperiment'

interface Imported {
  readonly layer: Layer
  readonly problems: readonly ConfigProblem[]
  readonly notices: readonly string[]
}

type Fields = Readonly<Record<string, unknown>>
const toFields = (value: unknown): Fields => (isRecord(value) ? value : {})
const toItems = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

/** @param source the file as read; its positions are kept for errors and `tune config` */
export function importProfilingExperiment(source: Layer): Imported {
  const importer = new Importer(source)
  importer.read()
  return { layer: importer.draft.layer(), problems: importer.problems, notices: importer.notices }
}

class Importer {
  readonly problems: ConfigProblem[] = []
  readonly notices: string[] = []
  readonly draft
  constructor(private readonly source: Layer) {
    this.draft = createDraft(source.folder)
  }

  private findOrigin = (path: Path): Origin => this.source.findOrigin(path) ?? { kind: 'default' }
  private addProblem(path: Path, what: string, hint: string): void {
    this.problems.push({ where: showOrigin(this.findOrigin(path)), what, hint })
  }
  private set(path: Path, value: unknown, from: Path): void {
    this.draft.set(path, value, this.findOrigin(from))
  }

  read(): void {
    const raw = toFields(this.source.raw)
    if (!groups.includes(String(raw.apiVersion)))
      this.addProblem(
        ['apiVersion'],
        `a ProfilingExperiment of ${raw.apiVersion}`,
        `known: ${groups.join(', ')}`,
      )
    this.checkFieldNames(raw, [], ['apiVersion', 'kind', 'metadata', 'spec', 'status'])
    const metadata = toFields(raw.metadata)
    const spec = toFields(raw.spec)
    this.checkFieldNames(
      spec,
      ['spec'],
      [
        'tunableParameters',
        'objective',
        'algorithm',
        'maxNumTrials',
        'parallelism',
        'requestTemplate',
        'clientTemplate',
        'servicePodTemplate',
        'serviceProgressDeadline',
      ],
    )
    this.set(['backend'], 'kubernetes', ['kind'])
    if (typeof metadata.name === 'string') this.set(['name'], metadata.name, ['metadata', 'name'])
    if (typeof metadata.namespace === 'string')
      this.set(['kubernetes', 'namespace'], metadata.namespace, ['metadata', 'namespace'])
    if (spec.maxNumTrials !== undefined)
      this.set(['budget', 'maxTrials'], spec.maxNumTrials, ['spec', 'maxNumTrials'])
    if (spec.parallelism !== undefined)
      this.set(['parallel'], spec.parallelism, ['spec', 'parallelism'])
    if (typeof spec.serviceProgressDeadline === 'number')
      this.set(['predictor', 'readyTimeout'], `${spec.serviceProgressDeadline}s`, [
        'spec',
        'serviceProgressDeadline',
      ])
    this.importObjective(toFields(spec.objective))
    this.importAlgorithm(toFields(spec.algorithm))
    const tuned = this.importParameters(spec.tunableParameters)
    this.importPod(
      toFields(toFields(spec.servicePodTemplate).template),
      String(metadata.name ?? 'model'),
      tuned,
    )
    if (spec.clientTemplate !== undefined)
      this.notices.push(
        "clientTemplate is not used, because tune applies its own load; pass the client's requests with --payload FILE and the server's protocol with --protocol",
      )
    if (spec.requestTemplate !== undefined)
      this.notices.push('requestTemplate is not used; pass request bodies with --payload FILE')
    this.notices.push(
      'A ProfilingExperiment has no latency SLO, which tune needs: set it with --slo',
    )
  }

  /** Morphling ignores unknown fields; tune reports them. */
  private checkFieldNames(value: Fields, path: Path, names: readonly string[]): void {
    for (const key of Object.keys(value).filter((name) => !names.includes(name))) {
      const where = showOrigin(this.source.findKeyOrigin([...path, key]) ?? { kind: 'default' })
      const hint = findClosestNames(key, names).length > 0 ? suggestNames(key, names) : ''
      this.problems.push({
        where,
        what: `unknown field '${[...path, key].join('.')}' of a ProfilingExperiment`,
        hint,
      })
    }
  }

  private importObjective({ type, objectiveMetricName }: Fields): void {
    const metric = String(objectiveMetricName ?? 'qps').toLowerCase()
    if (['qps', 'rps', 'throughput'].includes(metric) && (type ?? 'maximize') === 'maximize')
      this.set(['objective'], 'max-rate', ['spec', 'objective'])
    else
      this.notices.push(
        `The objective ${type} ${objectiveMetricName} is a metric of Morphling's client, which tune does not run: the default objective is used`,
      )
  }

  private importAlgorithm({ algorithmName, algorithmSettings }: Fields): void {
    const name = String(algorithmName ?? '').toLowerCase()
    const sampler = name === '' || name.startsWith('bayesian') ? 'gp' : name
    if (['gp', 'random', 'grid'].includes(sampler)) {
      if (name !== '') this.set(['sampler'], sampler, ['spec', 'algorithm', 'algorithmName'])
    } else
      this.addProblem(
        ['spec', 'algorithm', 'algorithmName'],
        `unknown algorithm '${algorithmName}'`,
        suggestNames(name, ['BayesianOpt', 'random', 'grid']),
      )
    if (toItems(algorithmSettings).length > 0)
      this.notices.push('algorithmSettings are not used, because the samplers have no settings')
  }

  /** @returns the resources that are tuned */
  private importParameters(categories: unknown): Set<string> {
    const tuned = new Set<string>()
    const categoriesPath: Path = ['spec', 'tunableParameters']
    if (toItems(categories).length === 0)
      this.addProblem(categoriesPath, 'no tunableParameters', 'there is nothing to tune')
    for (const [i, entry] of toItems(categories).entries()) {
      const { category, parameters } = toFields(entry)
      const categoryPath = [...categoriesPath, i]
      if (!['resource', 'env', 'args'].includes(String(category))) {
        this.addProblem(
          [...categoryPath, 'category'],
          `unknown category '${category}'`,
          'use one of resource, env, args',
        )
        continue
      }
      for (const [j, parameter] of toItems(parameters).entries())
        this.importParameter(
          toFields(parameter),
          String(category),
          [...categoryPath, 'parameters', j],
          tuned,
        )
    }
    return tuned
  }

  private importParameter(
    fields: Fields,
    category: string,
    parameterPath: Path,
    tuned: Set<string>,
  ): void {
    this.checkFieldNames(fields, parameterPath, ['name', 'parameterType', 'feasibleSpace'])
    const space = toFields(fields.feasibleSpace)
    this.checkFieldNames(space, [...parameterPath, 'feasibleSpace'], ['min', 'max', 'step', 'list'])
    const type = String(fields.parameterType ?? 'discrete')
    if (!['int', 'double', 'discrete', 'categorical'].includes(type))
      this.addProblem(
        [...parameterPath, 'parameterType'],
        `unknown parameterType '${type}'`,
        'use one of int, double, discrete, categorical',
      )
    const original = String(fields.name ?? '')
    const resource =
      category === 'resource' ? this.findTunableResource(original, parameterPath) : undefined
    if (category === 'resource' && !resource) return
    const name = resource?.name ?? original.replaceAll('.', '_')
    tuned.add(name)
    const problemsBefore = this.problems.length
    const read = (text: unknown, ...place: (string | number)[]): number | string => {
      if (!resource) return type === 'categorical' ? String(text) : parseNumber(String(text))
      const value = resource.read(String(text))
      if (Number.isNaN(value))
        this.addProblem(
          [...parameterPath, 'feasibleSpace', ...place],
          `'${text}' is not a quantity of ${original}`,
          `e.g. ${resource.example}`,
        )
      return value
    }
    const list = toItems(space.list)
    const entry =
      list.length > 0
        ? {
            values: list.map((value, k) => read(value, 'list', k)),
            ...(type === 'categorical' ? { kind: 'categorical' } : {}),
          }
        : { kind: type === 'double' ? 'float' : 'int', ...readRange(space, read) }
    if (this.problems.length === problemsBefore)
      this.set(['space', name], { ...entry, category }, [...parameterPath, 'feasibleSpace'])
    // Morphling uppercases names of environment variables and puts arguments bare at the end.
    if (category === 'env' && formatEnvironmentName(name) !== name.toUpperCase())
      this.set(['predictor', 'envNames', name], name.toUpperCase(), parameterPath)
    if (category === 'args') this.set(['predictor', 'argFormat'], ['$' + '{value}'], parameterPath)
  }

  private findTunableResource(name: string, parameterPath: Path): Resource | undefined {
    const resource = Object.hasOwn(resources, name) ? resources[name] : undefined
    if (resource) return resource
    const hint = Object.hasOwn(untunableResources, name)
      ? untunableResources[name]!
      : 'use cpu, memory or nvidia.com/gpu; for other names, Morphling would set ephemeral-storage'
    this.addProblem([...parameterPath, 'name'], `the resource '${name}' cannot be tuned`, hint)
    return undefined
  }

  /** The pod template stays unchanged. Its fixed resources are pinned, because they set the price. */
  private importPod(template: Fields, name: string, tuned: ReadonlySet<string>): void {
    const templatePath: Path = ['spec', 'servicePodTemplate', 'template']
    const containers = listContainers(template)
    const [container] = containers
    if (!container) {
      this.addProblem(
        ['spec', 'servicePodTemplate'],
        'no servicePodTemplate with a named container',
        'add one, because it defines the server of the model',
      )
      return
    }
    this.set(['kubernetes', 'pod'], template, templatePath)
    this.set(['kubernetes', 'container'], container.name, [
      ...templatePath,
      'spec',
      'containers',
      0,
      'name',
    ])
    if (containers.length > 1)
      this.notices.push(
        `The pod has ${containers.length} containers; as in Morphling, the first, ${container.name}, is tuned`,
      )
    const containerPath: Path = [...templatePath, 'spec', 'containers', 0]
    const environment = toItems(getValueAt(this.source.raw, [...containerPath, 'env']))
    const k = environment.findIndex((variable) => toFields(variable).name === 'MODEL_NAME')
    const model = k < 0 ? undefined : toFields(environment[k]).value
    this.set(
      ['model'],
      { name: typeof model === 'string' ? model.replace(/^.*\//, '') : name },
      k < 0 ? ['metadata', 'name'] : [...containerPath, 'env', k, 'value'],
    )
    const fixedResources = toFields(
      getValueAt(this.source.raw, [...containerPath, 'resources', 'limits']) ??
        getValueAt(this.source.raw, [...containerPath, 'resources', 'requests']),
    )
    for (const [key, quantity] of Object.entries(fixedResources)) {
      const resource = Object.hasOwn(resources, key) ? resources[key] : undefined
      if (resource && !tuned.has(resource.name))
        this.set(['pin', resource.name], resource.read(String(quantity)), [
          ...containerPath,
          'resources',
        ])
    }
  }
}

/**
 * Reads the numbers of a range. Other texts stay, and the schema rejects them with their position.
 */
function readRange(space: Fields, read: (text: unknown, place: string) => number | string): Fields {
  const entries = ['min', 'max', 'step'].filter((key) => space[key] !== undefined)
  return Object.fromEntries(entries.map((key) => [key, read(space[key], key)]))
}

interface Resource {
  readonly name: string
  readonly example: string
  /** NaN where the text is no quantity. */
  readonly read: (quantity: string) => number
}

const parseCores = (quantity: string) =>
  /^\d+m$/.test(quantity)
    ? Number.parseInt(quantity, 10) / 1000
    : quantity === ''
      ? Number.NaN
      : Number(quantity)

/** Kubernetes quantities: bytes without a suffix, decimal (M, G) and binary (Mi, Gi). */
function parseMemoryQuantity(quantity: string): number {
  if (/^\d+$/.test(quantity)) return Number(quantity) / 2 ** 20
  try {
    return parseMemoryMiB(/\d[KMG]$/.test(quantity) ? `${quantity}B` : quantity)
  } catch (error) {
    if (error instanceof UnitError) return Number.NaN
    throw error
  }
}

const resources: Readonly<Record<string, Resource>> = {
  cpu: { name: 'cpuCores', example: '500m or 2', read: parseCores },
  memory: { name: 'memoryMiB', example: '1800Mi or 4Gi', read: parseMemoryQuantity },
  'nvidia.com/gpu': { name: 'gpus', example: '1', read: Number },
}
const untunableResources: Readonly<Record<string, string>> = {
  'nvidia.com/gpumem':
    'a share of a GPU is tuned as gpuMemoryPercent, in % of the GPU: --gpu-memory 25,50,100',
  'nvidia.com/gpumem-percentage':
    'a share of a GPU is tuned as gpuMemoryPercent: --gpu-memory 25,50,100',
  'aliyun.com/gpu-mem':
    'a share of a GPU is tuned as gpuMemoryPercent, in % of the GPU: --gpu-memory 25,50,100',
  storage: 'disk affects neither the rate of a server nor its price',
}
