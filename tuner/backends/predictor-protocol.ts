/** Creates the client side of a predictor's protocol. */
import { join } from 'node:path'
import {
  type Protocol,
  type ProtocolName,
  type ProtocolOptions,
  protocolFor,
} from '../../profiler/index.ts'
import { withWarmUp } from '../../profiler/protocols/warm-up-requests.ts'
import { getBuiltinProtocol } from '../../trials/launchers/builtin.ts'
import { withCheckedAnswers } from '../../trials/launchers/checked-answers.ts'
import { GoldenStore } from '../../trials/launchers/golden-store.ts'
import { defaultReadyTimeoutS, type PredictorTemplate } from '../../trials/launchers/template.ts'
import type { Launcher } from '../../trials/types.ts'
import type { Experiment } from '../config/types.ts'

/**
 * Wraps a launcher so that the answers of each predictor are checked.
 * @param folder of the experiment; absent: golden answers stay in memory
 */
export function addAnswerChecks<L extends Launcher>(
  launcher: L,
  experiment: Experiment,
  template: PredictorTemplate,
  folder?: string,
): L {
  const { answerClient } = createProtocol(experiment).protocol
  const store = new GoldenStore(
    folder === undefined ? undefined : join(folder, 'golden-answers.json'),
  )
  return answerClient === undefined
    ? launcher
    : withCheckedAnswers(launcher, { rules: experiment.answers, template, answerClient, store })
}

interface ProtocolChoice {
  readonly name: ProtocolName
  /** Options of the protocol as JSON, for a process elsewhere. */
  readonly options: ProtocolOptions
  readonly protocol: Protocol
}

/** @param url one of several replicas */
export function createProtocol(
  { predictor, load: { timeoutMs, warmUp } }: Experiment,
  url?: string,
): ProtocolChoice {
  const firstAnswerMs = 1000 * (predictor.readyTimeoutS ?? defaultReadyTimeoutS)
  const choice = (name: ProtocolName, options: ProtocolOptions): ProtocolChoice => ({
    name,
    options,
    protocol: withWarmUp(protocolFor(name, options), warmUp, firstAnswerMs),
  })
  if (predictor.kind === 'builtin')
    return choice(getBuiltinProtocol(predictor), { timeoutMs, firstAnswerMs })
  const { path, signature, healthPath, body, contentType, form, headers } = predictor
  const server =
    predictor.kind === 'url'
      ? {
          headers: addAuthorization(url ?? predictor.url, headers),
          http2: predictor.http2,
          tls: predictor.tls,
        }
      : { headers }
  return choice(predictor.protocol, {
    ...server,
    timeoutMs,
    firstAnswerMs,
    path,
    signature,
    healthPath,
    template: body,
    contentType,
    form,
  })
}

/** Adds user and password of the URL as an Authorization header, unless there is one. */
export function addAuthorization(
  url: string,
  headers: Readonly<Record<string, string>> = {},
): Readonly<Record<string, string>> {
  const { username, password } = URL.canParse(url) ? new URL(url) : { username: '', password: '' }
  const hasAuthorization = Object.keys(headers).some(
    (name) => name.toLowerCase() === 'authorization',
  )
  if ((username === '' && password === '') || hasAuthorization) return headers
  const pair = `${decodeOrKeep(username)}:${decodeOrKeep(password)}`
  return { authorization: `Basic ${Buffer.from(pair).toString('base64')}`, ...headers }
}

function decodeOrKeep(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
