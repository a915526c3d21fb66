/** The client side of what an experiment's predictor speaks. */
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
 * The launcher, whose predictors answer as they should. @param folder of the experiment; absent:
 * golden answers are kept in memory alone
 */
export function answersChecked<L extends Launcher>(
  launcher: L,
  experiment: Experiment,
  template: PredictorTemplate,
  folder?: string,
): L {
  const { answers: reading } = protocolOf(experiment).protocol
  const store = new GoldenStore(
    folder === undefined ? undefined : join(folder, 'golden-answers.json'),
  )
  return reading === undefined
    ? launcher
    : withCheckedAnswers(launcher, { rules: experiment.answers, template, reading, store })
}

interface ProtocolChoice {
  readonly name: ProtocolName
  /** What the protocol was made from: JSON-safe, for a process elsewhere. */
  readonly options: ProtocolOptions
  readonly protocol: Protocol
}

/** @param url one of a predictor's servers, where it has several */
export function protocolOf(
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
          headers: withAuthorization(url ?? predictor.url, headers),
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

/**
 * The headers, with user and password of the URL as the one that they stand for, where none was
 * given.
 */
export function withAuthorization(
  url: string,
  headers: Readonly<Record<string, string>> = {},
): Readonly<Record<string, string>> {
  const { username, password } = URL.canParse(url) ? new URL(url) : { username: '', password: '' }
  const given = Object.keys(headers).some((name) => name.toLowerCase() === 'authorization')
  if ((username === '' && password === '') || given) return headers
  const pair = `${plainly(username)}:${plainly(password)}`
  return { authorization: `Basic ${Buffer.from(pair).toString('base64')}`, ...headers }
}

function plainly(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
