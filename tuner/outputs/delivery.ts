/**
 * Messages to a receiver, in order, in the background: tried again while it is worth it, and told
 * of when they are lost.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { readAnswer } from '../../profiler/bounded-reader.ts'
import { stripControls } from '../../profiler/plain-text.ts'
import { redactSecrets } from '../../trials/secrets.ts'
import { withAuthorization } from '../backends/predictor-protocol.ts'
import type { OutputTarget } from '../config/output-target.ts'

const timeoutMs = 5_000
/** Before the second try, the third, ... */
const pausesMs = [250, 1_000]
const mostAnswerBytes = 65_536
/**
 * Once a receiver is not to be had, messages are lost without a try for this long: a run does not
 * wait for it.
 */
export const restMs = 30_000

interface Message {
  /** Below the target's URL, a query with it; absent: the URL itself. */
  readonly path?: string
  readonly contentType: string
  readonly headers?: Readonly<Record<string, string>>
  /** Absent: it is asked for (GET). */
  readonly body?: string | Uint8Array
  /**
   * What stands for the answer where there is no such thing (404); absent: that is a fault like any
   * other.
   */
  readonly absentAs?: string
}

/** What of the messages to a receiver was lost. */
export class Losses {
  readonly #shown: string
  readonly #warn: (message: string) => void
  #count = 0

  /** @param warn told once when messages begin to be lost, and at the end how many were */
  constructor({ kind, url }: OutputTarget, warn: (message: string) => void) {
    this.#shown = `${kind}=${redactSecrets(withoutUser(url))}`
    this.#warn = warn
  }

  /** Something was lost, and why: what is said once, and counted. */
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
  readonly losses: Losses
  readonly #now: () => number
  #last: Promise<unknown> = Promise.resolve()
  #restingUntilMs = 0

  constructor(target: OutputTarget, warn: (message: string) => void, now: () => number) {
    this.#target = target
    this.losses = new Losses(target, warn)
    this.#now = now
  }

  /**
   * Queues a message. Resolves with the answer's text, or undefined where it was lost, which has
   * been told; never rejects.
   */
  send(message: Message): Promise<string | undefined> {
    const sent = this.#last.then(() => this.#deliver(message))
    this.#last = sent
    return sent
  }

  /** Waits for what is under way, and says what was lost. */
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
        if (refused || attempt >= pausesMs.length) {
          if (!refused) this.#restingUntilMs = this.#now() + restMs
          break
        }
        await sleep(pausesMs[attempt]!)
      }
    }
    this.losses.add(fault)
    return undefined
  }

  async #try(message: Message): Promise<{ text?: string; refused: boolean; problem: string }> {
    const { url, headers } = this.#target
    try {
      const response = await fetch(addressOf(url, message.path), {
        method: message.body === undefined ? 'GET' : 'POST',
        headers: {
          ...withAuthorization(url, headers),
          'content-type': message.contentType,
          ...message.headers,
        },
        body: message.body,
        signal: AbortSignal.timeout(timeoutMs),
        redirect: 'error',
      })
      const text = await readAnswer(response.body, mostAnswerBytes).catch(() => '')
      if (response.status === 404 && message.absentAs !== undefined)
        return { text: message.absentAs, refused: false, problem: '' }
      if (response.ok) return { text, refused: false, problem: '' }
      // Too many requests and failures of the receiver may pass; what it refuses once it refuses
      // again.
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

/** fetch takes no user info: it is in a header. */
function withoutUser(text: string): string {
  const url = new URL(text)
  url.username = ''
  url.password = ''
  return url.href
}

/** @param path below the target's URL, a query with it */
export function addressOf(base: string, path: string | undefined): string {
  const url = new URL(withoutUser(base))
  if (path === undefined) return url.href
  const [below, query] = path.split('?')
  url.pathname = `${url.pathname.replace(/\/$/, '')}${below}`
  if (query !== undefined) url.search = query
  return url.href
}

/** Of one message; receivers bound their size. */
const maxBatchItems = 2_000

/** What comes one by one, sent together: all that came while the batch before was on its way. */
export class Batches<Item> {
  readonly #send: (batch: readonly Item[]) => Promise<unknown>
  #waiting: Item[] = []
  #sending: Promise<void> | undefined

  /** @param send never rejects */
  constructor(send: (batch: readonly Item[]) => Promise<unknown>) {
    this.#send = send
  }

  add(...items: readonly Item[]): void {
    this.#waiting.push(...items)
    // In a later turn: what comes at once goes together.
    this.#sending ??= Promise.resolve().then(() => this.#drain())
  }

  /** Resolves once nothing waits. */
  async sent(): Promise<void> {
    while (this.#sending !== undefined) await this.#sending
  }

  async #drain(): Promise<void> {
    while (this.#waiting.length > 0) await this.#send(this.#waiting.splice(0, maxBatchItems))
    this.#sending = undefined
  }
}
