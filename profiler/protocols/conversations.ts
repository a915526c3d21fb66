/**
 * Recorded conversations in the format of ShareGPT: a JSON list, or JSON Lines, of
 * {"conversations": [{"from": "human", "value": "..."}, {"from": "gpt", "value": "..."}, ...]}.
 * `conversation`, `role` and `content` are accepted names of the same fields (LMSYS-Chat,
 * WildChat).
 */
import { getHint, readObjects } from '../bounded-reader.ts'
import { isRecord } from '../plain-record.ts'
import { PayloadError } from '../profiler-errors.ts'

/** A message of the user and the answer of the model. */
export interface ConversationTurn {
  readonly prompt: string
  readonly answer: string
}

/** Names of the speakers in different data sets. */
const userRoles = ['human', 'user']
const modelRoles = ['gpt', 'chatgpt', 'assistant', 'model', 'bing', 'bard', 'claude']
const hint =
  'a list of {"conversations": [{"from": "human", "value": "..."}, {"from": "gpt", "value": "..."}]}, as ShareGPT has them'

/** Whether a file begins with a conversation; false for an unreadable file. */
export function isConversations(path: string): boolean {
  try {
    const [first] = readObjects(path)
    return first !== undefined && findMessages(first) !== undefined
  } catch {
    return false
  }
}

/**
 * Reads the conversations of a file in order, each as far as user and model alternate, the user
 * first. Conversations without an answer are left out.
 * @throws PayloadError for an unreadable file, or one without conversations
 */
export function* readConversations(path: string): Generator<readonly ConversationTurn[]> {
  let conversations = 0
  try {
    for (const object of readObjects(path)) {
      const turns = pairMessages(findMessages(object) ?? [])
      if (turns.length === 0) continue
      conversations++
      yield turns
    }
  } catch (error) {
    throw new PayloadError(
      `conversations of ${path} cannot be read: ${(error as Error).message}`,
      getHint(error) ?? hint,
    )
  }
  if (conversations === 0)
    throw new PayloadError(
      `${path} has no conversation that a user begins and a model answers`,
      hint,
    )
}

function findMessages(object: unknown): readonly unknown[] | undefined {
  if (!isRecord(object)) return undefined
  const messages = object.conversations ?? object.conversation
  return Array.isArray(messages) ? messages : undefined
}

function pairMessages(messages: readonly unknown[]): ConversationTurn[] {
  const turns: ConversationTurn[] = []
  for (let i = 0; i + 1 < messages.length; i += 2) {
    const [prompt, answer] = [
      readMessage(userRoles, messages[i]),
      readMessage(modelRoles, messages[i + 1]),
    ]
    if (prompt === undefined || answer === undefined) break
    turns.push({ prompt, answer })
  }
  return turns
}

/** Reads the text of one of these speakers; undefined for another speaker or an empty text. */
function readMessage(speakers: readonly string[], message: unknown): string | undefined {
  if (!isRecord(message)) return undefined
  const [speaker, text] = [message.from ?? message.role, message.value ?? message.content]
  return speakers.includes(String(speaker)) && typeof text === 'string' && text.trim() !== ''
    ? text
    : undefined
}
