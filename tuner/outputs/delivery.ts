/**
 * Sends messages to a receiver in order and in the background, with retries, and reports lost ones.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { readAnswer } from '../../profiler/bounded-reader.ts'
import { stripControls } from '../../profiler/plain-text.ts'
import { redactSecrets } from '../../trials/secrets.ts'
import { addAuthorization } from '../backends/predictor-protocol.ts'
import type { OutputTarget } from '../config/values/output-target.ts'

/** Maximum time of one attempt. */
const timeoutMs = 5_000
/** Delays before the second and the third attempt. */
const retryDelaysMs = [250, 1_000]
/** Part of an answer that is read. */
const maxAnswerBytes = 65_536
/**
 * After a failed delivery, messages are dropped without an attempt for this long, so that a run
 * does not wait.
 */
export const failurePauseMs = 30_000

interface Message {
  /** Path below the target's URL, with its query; absent: the URL itself. */
  readonly path?: string
  readonly contentType: string
  readonly headers?: Readonly<Record<string, string>>
  /** Absent: a GET request. */
  readonly body?: string | Uint8Array
  /** Result for status 404; absent: 404 is an error. */
  readonly notFoundText?: string
}

/** Counts lost messages and warns about them. */
export class LossReport {
  readonly #shown: string
  readonly #warn: (message: string) => void
  #count = 0

  /** @param warn called for the first lost message, and at the end with the number */
  constructor({ kind, url }: OutputTarget, warn: (message: string) => void) {
    this.#shown = `${kind}=${redactSecrets(removeUser(url))}`
    this.#warn = warn
  }

  /** Counts a lost message; warns about the first. */
  add(fault: string): void {
    this.#count++
    if (this.#count === 1)
      this.#warn(`${this.#shown}: ${fault}; the run continues, and undelivered messages are lost`)
  }

  report(): void {
    if (this.#count > 1)
      this.#warn(`${this.#shown}: ${this.#count} messages were lost; the result itself is complete`)
  }
}

export class Delivery {
  readonly #target: OutputTarget
  readonly losses: LossReport
  readonly #now: () => number
  #last: Promise<unknown> = Promise.resolve()
  #restingUntilMs = 0

  constructor(target: OutputTarget, warn: (message: string) => void, now: () => number) {
    this.#target = target
    this.losses = new LossReport(target, warn)
    this.#now = now
  }

  /**
   * Queues a message. Resolves with the answer's text, or with undefined if it was lost. Never
   * rejects.
   */
  send(message: Message): Promise<string | undefined> {
    const sent = this.#last.then(() => this.#deliver(message))
    this.#last = sent
    return sent
  }

  /** Waits for queued messages, and reports the lost ones. */
  async close(): Promise<void> {
    await this.#last
    this.losses.report()
  }

  async #deliver(message: Message): Promise<string | undefined> {
    let fault = ''
    if (this.#now() >= this.#restingUntilMs) {
      for (let attempt = 0; ; attempt++) {
        const { text, refused, problem } = await this.#try(message)
        if (text !== undefined) return text
        fault = problem
        if (refused || attempt >= retryDelaysMs.length) {
          if (!refused) this.#restingUntilMs = this.#now() + failurePauseMs
          break
        }
        await sleep(retryDelaysMs[attempt]!)
      }
    }
    this.losses.add(fault)
    return undefined
  }

  async #try(message: Message): Promise<{ text?: string; refused: boolean; problem: string }> {
    const { url, headers } = this.#target
    try {
      const response = await fetch(resolveUrl(url, message.path), {
        method: message.body === undefined ? 'GET' : 'POST',
        headers: {
          ...addAuthorization(url, headers),
          'content-type': message.contentType,
          ...message.headers,
        },
        body: message.body,
        signal: AbortSignal.timeout(timeoutMs),
        redirect: 'error',
      })
      const text = await readAnswer(response.body, maxAnswerBytes).catch(() => '')
      if (response.status === 404 && message.notFoundText !== undefined)
        return { text: message.notFoundText, refused: false, problem: '' }
      if (response.ok) return { text, refused: false, problem: '' }
      // 429 and 5xx may be temporary; other statuses are final.
      const refused = response.status < 500 && response.status !== 429
      return {
        refused,
        problem: `status ${response.status}${text === '' ? '' : `: ${stripControls(redactSecrets(text)).trim().slice(0, 200)}`}`,
      }
    } catch (error) {
      const { message: said, cause } = error as Error & { cause?: Error }
      return {
        refused: false,
        problem: `cannot be reached (${redactSecrets(cause?.message || said)})`,
      }
    }
  }
}

/** fetch rejects user info in URLs; it is sent as a header. */
function removeUser(text: string): string {
  const url = new URL(text)
  url.username = ''
  url.password = ''
  return url.href
}

/** @param path below the target's URL, a query with it */
export function resolveUrl(base: string, path: string | undefined): string {
  const url = new URL(removeUser(base))
  if (path === undefined) return url.href
  const [below, query] = path.split('?')
  url.pathname = `${url.pathname.replace(/\/$/, '')}${below}`
  if (query !== undefined) url.search = query
  return url.href
}

/** Items of one message; receivers limit its size. */
const maxBatchItems = 2_000

/** Sends items in batches: each contains what arrived while the previous one was sent. */
export class BatchQueue<Item> {
  readonly #send: (batch: readonly Item[]) => Promise<unknown>
  #waiting: Item[] = []
  #sending: Promise<void> | undefined

  /** @param send never rejects */
  constructor(send: (batch: readonly Item[]) => Promise<unknown>) {
    this.#send = send
  }

  add(...items: readonly Item[]): void {
    this.#waiting.push(...items)
    // In a later microtask, so that items added together share a batch.
    this.#sending ??= Promise.resolve().then(() => this.#drain())
  }

  /** Resolves once all items are sent. */
  async sent(): Promise<void> {
    while (this.#sending !== undefined) await this.#sending
  }

  async #drain(): Promise<void> {
    while (this.#waiting.length > 0) await this.#send(this.#waiting.splice(0, maxBatchItems))
    this.#sending = undefined
  }
}
