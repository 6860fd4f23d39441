"""Functions on files and whole stores, awaited.

What is called on the way, such as ``progress``, is called in the thread that does the work.
"""

from satchel.api import operating
from satchel.api import transfer as plain
from satchel.api.away import in_a_thread

convert = in_a_thread(plain.convert)
inspect = in_a_thread(plain.inspect)
verify = in_a_thread(plain.verify)
list_formats = in_a_thread(plain.list_formats)
migrate = in_a_thread(operating.migrate)
copy_store = in_a_thread(operating.copy_store)
encrypt_store = in_a_thread(operating.encrypt_store)
decrypt_store = in_a_thread(operating.decrypt_store)
