"""Making the engine's environment: what is there, what is missing, and the steps in between. Knows no bpy.

* ``place``     the one folder that everything goes into, and whether what is in it can be trusted
* ``plan``      what is to be had for this machine, from where, and how much of it
* ``download``  one file by HTTPS, with its hash, going on where it broke off
* ``programs``  a program of ours run line by line, and ended with all that it started
* ``steps``     the steps themselves, by uv or by pip
* ``words``     what uv, pip and the network say, for people
* ``jobs``      a set-up or a check in a thread of its own, to be polled

Blender's own Python is never installed into, and nothing here runs before somebody has asked for it.
"""
