"""The explorer: questions asked with controls, answered as pages that change while one looks.

controls     what a page may ask, from the fields of the question
desk         one question in, the data of a page out; the same natively and in a browser
sessions     a desk in a process of its own, with a time limit
server       pages and answers over loopback
"""
