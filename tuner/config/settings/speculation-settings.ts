/**
 * Speculative decoding in an experiment: whether the server can draft so, and what its figures rest
 * on.
 */
import { parameterValues } from '../../../search/space/space.ts'
import type { SearchSpace } from '../../../search/types.ts'
import { DeviceModelError } from '../../../trials/devices/device-model-error.ts'
import type { PredictorTemplate } from '../../../trials/launchers/template.ts'
import { llmDefaults } from '../../../trials/predictor/llm/serving-limits.ts'
import { resolveDraft } from '../../../trials/predictor/llm/speculation.ts'
import {
  assumedAcceptance,
  defaultMethod,
  type SpeculativeMethod,
} from '../../../trials/predictor/llm/speculative-methods.ts'
import { findDraftFault } from '../../../trials/servers/language-servers.ts'
import { isLanguageServer, type LanguageServer } from '../../../trials/servers/server-kinds.ts'
import type { Context } from '../context.ts'
import { languageModelOf } from '../predictor-template.ts'
import type { Experiment } from '../types.ts'

const valuesOf = (
  { parameters }: Pick<SearchSpace, 'parameters'>,
  name: string,
): readonly (number | string)[] | undefined => {
  const found = parameters.find((parameter) => parameter.name === name)
  return found && (parameterValues(found) ?? [Number.POSITIVE_INFINITY])
}

/** What may draft in it; none where nothing does. */
function methodsIn(space: Pick<SearchSpace, 'parameters'>): readonly SpeculativeMethod[] {
  const tokens = valuesOf(space, 'speculativeTokens') ?? []
  if (!tokens.some((value) => Number(value) > 0)) return []
  return (valuesOf(space, 'speculativeMethod') ?? [defaultMethod]) as readonly SpeculativeMethod[]
}

/**
 * The server of language models that is started, or modelled; undefined for one of the user's own,
 * whose words these are not.
 */
function serverOf(predictor: PredictorTemplate): LanguageServer | undefined {
  if (predictor.kind === 'builtin') return predictor.standsFor ?? llmDefaults.engine
  const kind = predictor.kind === 'command' ? predictor.server?.kind : undefined
  return kind !== undefined && isLanguageServer(kind) ? kind : undefined
}

/**
 * A server must have the method, and the draft model must be known. Of a model that is no language
 * model other checks tell.
 */
export function checkSpeculation(
  { report, entries, own }: Context,
  predictor: PredictorTemplate,
  space: SearchSpace,
): void {
  const at = (name: string) => [Object.hasOwn(entries.pin ?? {}, name) ? 'pin' : 'space', name]
  const names = ['speculativeTokens', 'speculativeMethod', 'speculativeModel'].filter(
    (name) => valuesOf(space, name) !== undefined,
  )
  if (names.length === 0) return
  if (predictor.kind === 'builtin' && predictor.engine === 'gguf') {
    report(
      at(names[0]!),
      `${names[0]}: the built-in predictor does not support speculative decoding through llama.cpp`,
      'leave it out',
    )
    return
  }
  const server = serverOf(predictor)
  const target = predictor.kind === 'builtin' ? languageModelOf(predictor.model, own) : undefined
  if (server === undefined || (predictor.kind === 'builtin' && target === undefined)) return
  const methods = methodsIn(space)
  if (methods.length === 0)
    for (const name of names.filter((each) => each !== 'speculativeTokens'))
      report(
        at(name),
        `${name} has no effect, because no tokens are drafted`,
        'set their number: speculativeTokens: [0, 2, 4]',
      )
  const models = valuesOf(space, 'speculativeModel')
  for (const method of methods) {
    // Modelled, the layer of EAGLE-3 follows from the model itself.
    const model = models === undefined ? undefined : String(models[0])
    const fault = findDraftFault(
      server,
      method,
      method === 'eagle3' && target !== undefined ? (model ?? '') : model,
    )
    if (fault)
      report(
        at(valuesOf(space, 'speculativeMethod') ? 'speculativeMethod' : 'speculativeTokens'),
        fault.what,
        fault.hint,
      )
    else if (target !== undefined && method === 'draft')
      for (const name of models ?? []) {
        const unknown = problemOf(() =>
          resolveDraft(method, target, String(name), own.architectures),
        )
        if (unknown)
          report(
            at('speculativeModel'),
            `speculativeModel: ${unknown.message}`,
            'use a model of the catalogue, or one under architectures',
          )
      }
  }
}

function problemOf(find: () => unknown): DeviceModelError | undefined {
  try {
    find()
    return undefined
  } catch (error) {
    if (error instanceof DeviceModelError) return error
    throw error
  }
}

/**
 * What the figures of a modelled server with drafts rest on; none where nothing is drafted, or
 * nothing modelled.
 */
export function acceptanceNotice({
  predictor,
  space,
}: Pick<Experiment, 'predictor' | 'space'>): string[] {
  const methods = predictor.kind === 'builtin' ? methodsIn(space) : []
  if (predictor.kind !== 'builtin' || methods.length === 0) return []
  const { acceptance } = predictor
  const said =
    acceptance === undefined
      ? methods.map((method) => `${assumedAcceptance[method]} (${method})`).join(', ')
      : String(acceptance)
  return [
    `Speculative decoding rests on an ASSUMPTION: each draft token is accepted independently with probability ${said}, for any request. Trials of the real server measure the true value: set it as predictor.acceptance.`,
  ]
}
