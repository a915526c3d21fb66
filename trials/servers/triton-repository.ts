/**
 * Reads the models of a Triton pipeline from its model repository: those that the steps of an
 * ensemble name, and those that the user names, as BLS models call others from their code.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { BoundError, readText } from '../../profiler/bounded-reader.ts'
import {
  countLine,
  findFieldLine,
  listItems,
  listMessages,
  type ProtoMessage,
  parseTextProto,
  Text,
  TextProtoError,
} from './text-proto.ts'

const configFile = 'config.pbtxt'

/** A model with what its config.pbtxt says. */
export interface RepositoryModel {
  readonly name: string
  /** Path of its config.pbtxt, for messages. */
  readonly file: string
  /** Text of that file; undefined without one. */
  readonly text?: string
  readonly config: ProtoMessage
  /** Models that it calls, if it is an ensemble. */
  readonly steps?: readonly string[]
}

/** A fault of the repository. */
export interface RepositoryFault {
  /** Line of a config.pbtxt. */
  readonly where?: string
  /** The model that the user named, if no file of the repository is at fault. */
  readonly model?: string
  readonly what: string
  readonly hint: string
}

interface Repository {
  readonly models: readonly RepositoryModel[]
  readonly faults: readonly RepositoryFault[]
}

/**
 * Reads the entry, the models that its steps name, and those that the user named, with the steps
 * of each.
 * @param showPath how messages name a file
 * @returns callers first
 */
export function readRepository(
  folder: string,
  entry: string,
  named: readonly string[],
  showPath: (path: string) => string,
): Repository {
  const faults: RepositoryFault[] = []
  const models: RepositoryModel[] = []
  const visited = new Set<string>()
  const visit = (name: string, path: readonly RepositoryModel[], calledAt?: string) => {
    const seenAt = path.findIndex((caller) => caller.name === name)
    if (seenAt >= 0)
      faults.push({
        where: calledAt!,
        what: `models call each other in a circle: ${[...path.slice(seenAt).map((one) => one.name), name].join(' → ')}`,
        hint: 'remove one of these steps',
      })
    if (seenAt >= 0 || visited.has(name)) return
    visited.add(name)
    if (!existsSync(join(folder, name))) {
      faults.push({
        ...(calledAt === undefined ? { model: name } : { where: calledAt }),
        what: `the model repository ${showPath(folder)} has no model '${name}'`,
        hint: 'correct the name, or add the folder of the model',
      })
      return
    }
    const model = readModel(folder, name, showPath, faults)
    const callers = [...path, model]
    const steps = listSteps(model.config)
    // Named models may be called by the code of a BLS model. The last visited comes first.
    if (name === entry)
      for (const other of [...named].reverse())
        if (other !== entry && !steps.some(({ value }) => value === other)) visit(other, callers)
    for (const step of [...steps].reverse()) visit(step.value, callers, locateStep(model, step))
    models.unshift(model)
  }
  visit(entry, [])
  if (faults.length === 0) faults.push(...models.flatMap((model) => checkBatchSizes(model, models)))
  return { models, faults }
}

/** Whether the model at this path is an ensemble; false for what cannot be read. */
export function isEnsemble(path: string): boolean {
  try {
    return listSteps(parseTextProto(readText(join(path, configFile), 'document'))).length > 0
  } catch {
    return false
  }
}

function readModel(
  folder: string,
  name: string,
  showPath: (path: string) => string,
  faults: RepositoryFault[],
): RepositoryModel {
  const path = join(folder, name, configFile)
  const file = showPath(path)
  const empty = { name, file, config: {} }
  if (!existsSync(path)) return empty
  try {
    const text = readText(path, 'document')
    const config = parseTextProto(text)
    const steps = listSteps(config).map(({ value }) => value)
    return { name, file, text, config, ...(steps.length > 0 && { steps }) }
  } catch (error) {
    if (!(error instanceof TextProtoError || error instanceof BoundError)) throw error
    const line = error instanceof TextProtoError ? error.line : undefined
    faults.push({
      where: line === undefined ? file : `${file}:${line}`,
      what: error.message,
      hint: 'correct the file',
    })
    return empty
  }
}

/** Names of the models that an ensemble calls, with their places in the file. */
const listSteps = (config: ProtoMessage): readonly Text[] =>
  listMessages(config.ensemble_scheduling)
    .flatMap(({ step }) => listMessages(step))
    .flatMap(({ model_name }) => listItems(model_name).filter((item) => item instanceof Text))

const locateStep = ({ text, file }: RepositoryModel, { at }: Text): string =>
  `${file}:${countLine(text!, at!)}`

/** `models/embed/config.pbtxt:3`: the line of a field, or the file. */
export function locateField({ text = '', file }: RepositoryModel, field: string): string {
  const line = findFieldLine(text, field)
  return line === undefined ? file : `${file}:${line}`
}

/**
 * Reports a composing model that takes smaller batches than its ensemble, which Triton does not
 * load. Models without batches are excepted, as in Triton.
 */
function checkBatchSizes(
  ensemble: RepositoryModel,
  models: readonly RepositoryModel[],
): RepositoryFault[] {
  const limit = readMaxBatchSize(ensemble)
  return (ensemble.steps ?? []).flatMap((name) => {
    const model = models.find((one) => one.name === name)!
    const size = readMaxBatchSize(model)
    if (size === 0 || size >= limit) return []
    return [
      {
        where: locateField(model, 'max_batch_size'),
        what: `${name} takes batches of up to ${size}, but its ensemble ${ensemble.name} allows ${limit} (${locateField(ensemble, 'max_batch_size')})`,
        hint: `lower max_batch_size of ${ensemble.name}, or raise that of ${name}`,
      },
    ]
  })
}

/** 0: it takes no batches, or its config.pbtxt does not say. */
const readMaxBatchSize = ({ config }: RepositoryModel): number => Number(config.max_batch_size ?? 0)

/**
 * Whether a max_batch_size can be set: inputs that are written without one have no batch dimension.
 * Without inputs Triton derives both from the model.
 */
export const takesBatches = (model: RepositoryModel): boolean =>
  readMaxBatchSize(model) > 0 || model.config.input === undefined
