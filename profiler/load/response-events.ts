/**
 * Converts streams of the Responses API
 * (https://platform.openai.com/docs/api-reference/responses-streaming) to equivalent chunks of a
 * completion.
 */
import { isRecord } from '../plain-record.ts'

type Event = Readonly<Record<string, unknown>>

/** Whether an event is of the Responses API; chunks of a completion have no type. */
export const isResponseEvent = (event: Event): boolean =>
  typeof event.type === 'string' && (event.type === 'error' || event.type.startsWith('response.'))

/** Converts an event to a chunk. Undefined for events that only begin, end or repeat a part. */
export function toChatChunk(event: Event): Event | undefined {
  const type = String(event.type)
  if (type === 'error' || type === 'response.failed')
    return { error: event.error ?? asRecord(event.response).error ?? event }
  const findReason = finishReasons[type]
  if (findReason !== undefined)
    return {
      ...convertUsage(event),
      choices: [{ finish_reason: findReason(asRecord(event.response)) }],
    }
  const delta = type.endsWith('.delta')
    ? deltaConverters.find(([eventType]) => eventType.test(type))
    : undefined
  return (
    delta && { choices: [{ delta: delta[1](event.delta), logprobs: { content: event.logprobs } }] }
  )
}

/** End of a response, as a completion expresses it. */
const finishReasons: Readonly<Record<string, (response: Event) => unknown>> = {
  'response.completed': () => 'stop',
  'response.incomplete': ({ incomplete_details: why }) => {
    const { reason } = asRecord(why)
    return reason === undefined || reason === 'max_output_tokens' ? 'length' : reason
  },
  'response.cancelled': () => 'cancelled',
}

/** Token texts by the events that carry them. */
const deltaConverters: readonly (readonly [RegExp, (text: unknown) => Event])[] = [
  [/^response\.(output_text|refusal)\./, (content) => ({ content })],
  [/^response\.reasoning/, (text) => ({ reasoning_content: text })],
  [
    /_arguments\.|_call_input\.|_call_code\./,
    (text) => ({ tool_calls: [{ function: { arguments: text } }] }),
  ],
]

function convertUsage({ response }: Event): Event {
  const {
    input_tokens: prompt,
    output_tokens: completion,
    output_tokens_details: details,
  } = asRecord(asRecord(response).usage)
  return {
    usage: {
      prompt_tokens: prompt,
      completion_tokens: completion,
      completion_tokens_details: details,
    },
  }
}

const asRecord = (value: unknown): Event => (isRecord(value) ? value : {})
