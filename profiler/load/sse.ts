/**
 * Parses server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) from
 * chunks cut anywhere, even inside a character.
 */

/** Maximum length of an event, which is buffered whole; a longer one is an error. */
const maxEventChars = 4_194_304

export class SseParser {
  private readonly decoder = new TextDecoder()
  private line = ''
  private data: string[] = []
  private followsCarriageReturn = false

  /** Returns the data of every event that this chunk completes. */
  push(chunk: Uint8Array): string[] {
    const events: string[] = []
    let text = this.decoder.decode(chunk, { stream: true })
    if (this.followsCarriageReturn && text.startsWith('\n')) text = text.slice(1)
    if (text !== '') this.followsCarriageReturn = text.endsWith('\r')
    let from = 0
    for (const end of text.matchAll(/\r\n|\n|\r/g)) {
      this.endLine(this.line + text.slice(from, end.index), events)
      this.line = ''
      from = end.index + end[0].length
    }
    this.line += text.slice(from)
    if (this.line.length + this.data.reduce((sum, line) => sum + line.length, 0) > maxEventChars)
      throw new RangeError('an event without end')
    return events
  }

  private endLine(line: string, events: string[]): void {
    if (line === '') {
      if (this.data.length > 0) events.push(this.data.join('\n'))
      this.data = []
    } else if (line === 'data') this.data.push('')
    else if (line.startsWith('data:')) this.data.push(line.slice(line[5] === ' ' ? 6 : 5))
  }
}
