/**
 * Pools of prefill and decode servers in a space: what goes together, where they can be had, and
 * what is assumed of them.
 */
import { parameterValues } from '../../../search/space/space.ts'
import type { Parameter, SearchSpace } from '../../../search/types.ts'
import {
  assumedTransfers,
  gpusOfMachine,
  pooledEngines,
  splitCondition,
} from '../../../trials/launchers/simulated/llm-pools.ts'
import { isStarted, type PredictorTemplate } from '../../../trials/launchers/template.ts'
import { llmDefaults } from '../../../trials/predictor/llm/serving-limits.ts'
import { poolParameters } from '../../../trials/resources.ts'
import type { LanguageServer } from '../../../trials/servers/server-kinds.ts'
import type { Context } from '../context.ts'
import { splitParameters } from '../tensor-parallel.ts'

const isOfPools = ({ name }: Parameter): boolean =>
  (poolParameters as readonly string[]).includes(name)

/** The most servers that a parameter asks for. */
const mostOf = (parameter: Parameter): number =>
  Math.max(...(parameterValues(parameter) ?? [(parameter as { max: number }).max]).map(Number))

/** Whether any configuration has pools. */
const hasPools = ({ parameters }: SearchSpace): boolean =>
  parameters.some((parameter) => isOfPools(parameter) && mostOf(parameter) > 0)

/**
 * Leaves out servers of one kind without the other, and where both are choices, GPUs of theirs that
 * cannot hand over to each other. @param server that is modelled
 */
export function poolConditions(
  parameters: readonly Parameter[],
  server: LanguageServer = llmDefaults.engine,
): string[] {
  if (parameters.filter(isOfPools).length < poolParameters.length) return []
  const split = splitParameters.every((name) =>
    parameters.some((parameter) => parameter.name === name),
  )
  return [
    '(prefillReplicas == 0 and decodeReplicas == 0) or (prefillReplicas > 0 and decodeReplicas > 0)',
    ...(split ? [splitCondition(server)] : []),
  ]
}

const example = '--param prefillReplicas=0,1,2 --param decodeReplicas=0,1,2'

/**
 * Pools are simulated, of the servers whose way of handing over is modelled; what runs already may
 * be told by its numbers.
 */
export function checkPools(
  { entries, report }: Context,
  predictor: PredictorTemplate,
  space: SearchSpace,
): void {
  const named = space.parameters.filter(isOfPools)
  if (!hasPools(space)) {
    const decodeGpus = space.parameters.find(({ name }) => name === 'decodeGpus')
    if (decodeGpus !== undefined)
      report(
        [Object.hasOwn(entries.pin ?? {}, 'decodeGpus') ? 'pin' : 'space', 'decodeGpus'],
        'decodeGpus has no effect, because no configuration has decode servers',
        `to tune them, add ${example}`,
      )
    if (predictor.kind === 'builtin' && predictor.kvTransfer !== undefined)
      report(
        ['predictor', 'kvTransfer'],
        'kvTransfer has no effect, because no configuration has prefill and decode servers',
        `to tune them, add ${example}`,
      )
    return
  }
  const { name } = named.find((parameter) => mostOf(parameter) > 0)!
  const at = [Object.hasOwn(entries.pin ?? {}, name) ? 'pin' : 'space', name]
  if (named.length < poolParameters.length) {
    const other = poolParameters.find((one) => one !== name)
    report(
      at,
      `${name} without ${other}: each needs the other to answer requests`,
      `set both: ${example}`,
    )
  }
  if (!isStarted(predictor)) return
  const standsFor =
    predictor.kind === 'builtin' ? (predictor.standsFor ?? llmDefaults.engine) : undefined
  if (standsFor === undefined || entries.backend !== 'simulated')
    report(
      at,
      `${name}: prefill and decode servers can only be simulated`,
      'use --backend simulated with --server vllm or sglang; to measure a running router, set its --url and pin both numbers',
    )
  else if (!pooledEngines.includes(standsFor))
    report(
      at,
      `${name}: prefill and decode servers are not modelled for ${standsFor}`,
      `use ${pooledEngines.join(' or ')}, such as --server vllm`,
    )
}

/** What is assumed of them. */
export function poolNotices(predictor: PredictorTemplate, space: SearchSpace): string[] {
  if (predictor.kind !== 'builtin' || !hasPools(space)) return []
  const { nvlink, network } = assumedTransfers
  const { gbPerS, latencyMs = network.latencyMs } = predictor.kvTransfer ?? {}
  const bandwidth =
    gbPerS === undefined
      ? `${nvlink.gbPerS} GB/s per GPU over NVLink if one machine of ${gpusOfMachine} GPUs has room for both pools, else ${network.gbPerS} GB/s per GPU over the network (or PCIe)`
      : `${gbPerS} GB/s per GPU`
  return [
    `Prefill and decode pools are SIMULATED and were not validated against real ones. ASSUMED: KV cache transfer at ${bandwidth}, plus ${latencyMs} ms per request (set predictor.kvTransfer to change it). tune spec writes manifests of pools only for SGLang (--server sglang).`,
  ]
}
