/** Content types of files, by their names. */
import { extname } from 'node:path'

/** Types of files that are requests as they are. */
const typesOfFiles: Readonly<Record<string, string>> = {
  '.jpg': 'image/jpeg',
  '.jpeg': 'image/jpeg',
  '.png': 'image/png',
  '.webp': 'image/webp',
  '.gif': 'image/gif',
  '.bmp': 'image/bmp',
  '.tiff': 'image/tiff',
  '.wav': 'audio/wav',
  '.mp3': 'audio/mpeg',
  '.flac': 'audio/flac',
  '.ogg': 'audio/ogg',
  '.opus': 'audio/ogg',
  '.m4a': 'audio/mp4',
  '.aac': 'audio/aac',
  '.mp4': 'video/mp4',
  '.webm': 'video/webm',
  '.pdf': 'application/pdf',
  '.npy': 'application/x-npy',
  '.pb': 'application/x-protobuf',
  '.bin': 'application/octet-stream',
}

/**
 * Of a file that is a request as it is, by its name; undefined for files that hold requests, texts
 * or nothing that is known.
 */
export const typeOfFile = (path: string): string | undefined =>
  typesOfFiles[extname(path).toLowerCase()]
